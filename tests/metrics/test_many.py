"""Counts of several labels per row, and thresholds that are best on the data they were chosen on."""

from __future__ import annotations

import numpy as np
import pytest

from weft.metrics import Confusion, ManyCounts, choose_each, choose_thresholds
from weft.metrics.scores import f1


def rows(*lists: list[int]) -> np.ndarray:
    return np.array(lists, dtype=bool)


@pytest.mark.covers("M2", "E3")
def test_scores_by_hand() -> None:
    counts = ManyCounts(("a", "b", "c"))
    gold, predicted = rows([1, 1, 0], [0, 1, 0], [0, 0, 0]), rows([1, 0, 0], [0, 1, 1], [0, 0, 0])
    counts.add(gold, predicted, np.array([0, 0, 0]))
    found = counts.score(counts.sums())
    assert found["micro_f1"] == pytest.approx(2 * 2 / (3 + 3))
    assert found["f1"] == pytest.approx((1 + 2 / 3 + 0) / 3)
    assert found["exact"] == pytest.approx(1 / 3)  # the row without labels, and nothing predicted for it
    assert [row.label for row in counts.occurring()] == ["a", "b", "c"]


def test_a_label_that_training_never_saw_is_missed() -> None:
    counts = ManyCounts(("a",))
    counts.add(rows([1], [0]), rows([1], [0]), np.array([0, 1]))
    found = counts.score(counts.sums())
    assert found == pytest.approx({"micro_f1": 2 / 3, "f1": 1 / 2, "exact": 1 / 2})


def test_sums_of_parts_are_the_sums_of_the_whole() -> None:
    random = np.random.default_rng(0)
    gold, predicted = random.random((20, 4)) < 0.4, random.random((20, 4)) < 0.4
    whole, parts = ManyCounts("abcd"), ManyCounts("abcd")
    whole.add(gold, predicted, np.zeros(20, dtype=np.int64))
    for row in range(20):
        one = ManyCounts("abcd")
        one.add(gold[row : row + 1], predicted[row : row + 1], np.zeros(1, dtype=np.int64))
        parts.merge(one)
    assert parts.sums().tolist() == whole.sums().tolist()


def test_each_threshold_is_the_best_there_is() -> None:
    random = np.random.default_rng(1)
    gold = random.random((80, 3)) < np.array([0.05, 0.3, 0.8])
    shares = np.clip(0.3 * gold + random.random((80, 3)) * 0.6, 0, 1)
    chosen, own = choose_each(shares, gold)
    assert own.tolist() == [False, True, True], "4 of 80 examples are too few"
    assert chosen[0] == 0.5
    for label in (1, 2):

        def score(threshold: float, label: int = label) -> float:
            predicted = shares[:, label] >= threshold
            return f1(float((predicted & gold[:, label]).sum()), float(gold[:, label].sum()), float(predicted.sum()))

        assert score(chosen[label]) == pytest.approx(max(map(score, shares[:, label])))


def macro(gold: np.ndarray, predicted: np.ndarray, classes: int) -> float:
    table = Confusion([str(number) for number in range(classes)])
    table.add(gold.tolist(), predicted.tolist())
    return table.f1


def test_the_threshold_of_two_labels_is_a_threshold() -> None:
    """p / t is greatest for the second label where p > t, and macro F1 is the best of all thresholds."""
    random = np.random.default_rng(2)
    gold = (random.random(300) < 0.1).astype(np.int64)
    share = np.clip(0.15 + 0.2 * gold + random.normal(0, 0.08, 300), 0.001, 0.999)
    shares = np.stack([1 - share, share], axis=1)
    chosen, own = choose_thresholds(shares, gold)
    assert own.all()
    assert chosen.sum() == pytest.approx(1)
    answers = (shares / chosen).argmax(1)
    assert (answers == (share > chosen[1])).all()
    best = max(macro(gold, (share > cut).astype(np.int64), 2) for cut in share)
    assert macro(gold, answers, 2) > 0.97 * best > macro(gold, shares.argmax(1), 2)


def test_of_few_examples_none_are_chosen() -> None:
    shares = np.array([[0.4, 0.6]] * 10)
    for found in (
        choose_thresholds(shares, np.zeros(10, dtype=np.int64)),
        choose_each(shares, np.ones((10, 2), dtype=bool)),
    ):
        assert found.values.tolist() == [0.5, 0.5]
        assert not found.chosen.any()


def test_a_threshold_needs_ten_examples_of_each_kind() -> None:
    """9 of 60 examples with the label, or 9 without it, choose nothing, however well a threshold separates them."""
    for positive in (1, 9, 51, 59):
        labels = (np.arange(60) < positive).astype(np.int64)
        share = np.where(labels == 1, 0.3, 0.1)
        shares = np.stack([1 - share, share], axis=1)
        values, chosen = choose_thresholds(shares, labels)
        assert values.tolist() == [0.5, 0.5]
        assert not chosen.any()
        values, chosen = choose_each(shares, labels[:, None] == [0, 1])
        assert values.tolist() == [0.5, 0.5]
        assert not chosen.any()
    labels = (np.arange(60) < 10).astype(np.int64)
    share = np.where(labels == 1, 0.3, 0.1)
    values, chosen = choose_thresholds(np.stack([1 - share, share], axis=1), labels)
    assert chosen.all()
    assert 0.1 < values[1] < 0.3
