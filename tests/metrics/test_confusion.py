"""Accuracy, confusion and F1, by hand.

gold       a a a a b b c c        a: precision 3/4, recall 3/4, F1 3/4
predicted  a a a b b b a b        b: precision 2/4, recall 2/2, F1 2/3          c: 0
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.metrics import ClassScore, Confusion

GOLD, PREDICTED = [0, 0, 0, 0, 1, 1, 2, 2], [0, 0, 0, 1, 1, 1, 0, 1]


def confusion(gold: list[int], predicted: list[int], labels: str = "abc") -> Confusion:
    table = Confusion(list(labels))
    table.add(gold, predicted)
    return table


@pytest.mark.covers("E3")
def test_hand_worked_scores() -> None:
    table = confusion(GOLD, PREDICTED)
    assert table.matrix.tolist() == [[3, 1, 0], [0, 2, 0], [1, 1, 0]]
    assert table.matrix.dtype == np.int64
    assert table.accuracy == table.micro_f1 == 5 / 8
    assert table.majority == 4 / 8
    assert table.f1 == pytest.approx((3 / 4 + 2 / 3 + 0) / 3)
    assert (table.count, table.unseen) == (8, 0)


def test_rows_by_class() -> None:
    rows = confusion(GOLD, PREDICTED).per_class()
    assert rows[0] == ClassScore("a", 3 / 4, 3 / 4, 3 / 4, 4)
    assert rows[1] == ClassScore("b", 2 / 4, 1.0, pytest.approx(2 / 3), 2)
    assert rows[2] == ClassScore("c", 0.0, 0.0, 0.0, 2)


def test_macro_f1_is_over_the_classes_that_occur() -> None:
    # c is nowhere; b is only predicted, which counts against it.
    table = confusion([0, 0], [0, 1])
    assert table.f1 == pytest.approx((2 / 3 + 0) / 2)
    assert table.per_class()[2] == ClassScore("c", 0.0, 0.0, 0.0, 0)


def test_an_unseen_gold_label_is_wrong_whatever_was_predicted() -> None:
    table = confusion([0, 0, 2, -1, -1], [0, 0, 2, 0, 2])
    assert table.unseen == 2
    assert table.count == 5
    assert table.accuracy == table.micro_f1 == 3 / 5
    assert table.majority == 2 / 5
    assert table.matrix.sum() == 3
    assert table.per_class()[0] == ClassScore("a", 2 / 3, 1.0, pytest.approx(4 / 5), 2)
    assert table.per_class()[2] == ClassScore("c", 1 / 2, 1.0, pytest.approx(2 / 3), 1)
    assert table.f1 == pytest.approx((4 / 5 + 2 / 3 + 0) / 3)


PAIRS = st.lists(st.tuples(st.integers(-1, 2), st.integers(0, 2)), max_size=30)


@given(pairs=PAIRS, size=st.integers(1, 7))
def test_batches_do_not_matter(pairs: list[tuple[int, int]], size: int) -> None:
    whole = confusion([gold for gold, _ in pairs], [predicted for _, predicted in pairs])
    batched = Confusion(["a", "b", "c"])
    for start in range(0, len(pairs), size):
        batch = pairs[start : start + size]
        batched.add([gold for gold, _ in batch], [predicted for _, predicted in batch])
    assert batched.per_class() == whole.per_class()
    assert (batched.accuracy, batched.f1, batched.majority) == (whole.accuracy, whole.f1, whole.majority)
    assert batched.matrix.tolist() == whole.matrix.tolist()


@pytest.mark.covers("E3")
@given(pairs=PAIRS)
def test_micro_f1_is_that_of_the_summed_counts(pairs: list[tuple[int, int]]) -> None:
    correct = sum(gold == predicted for gold, predicted in pairs)
    false_positives = false_negatives = len(pairs) - correct
    expected = 2 * correct / (2 * correct + false_positives + false_negatives) if pairs else 0.0
    assert confusion([gold for gold, _ in pairs], [p for _, p in pairs]).micro_f1 == pytest.approx(expected)


def test_nothing_added_is_zero() -> None:
    table = Confusion(["a", "b"])
    assert (table.accuracy, table.f1, table.micro_f1, table.majority, table.count, table.unseen) == (0, 0, 0, 0, 0, 0)
    assert table.per_class() == [ClassScore("a", 0, 0, 0, 0), ClassScore("b", 0, 0, 0, 0)]


def test_changing_the_matrix_does_not_change_the_scores() -> None:
    table = confusion(GOLD, PREDICTED)
    table.matrix[:] = 0
    assert table.accuracy == 5 / 8


@pytest.mark.parametrize(("gold", "predicted"), [([0], [-1]), ([-2], [0]), ([3], [0]), ([0], [3]), ([0, 1], [0])])
def test_labels_out_of_range_are_refused(gold: list[int], predicted: list[int]) -> None:
    with pytest.raises(ValueError, match="labels"):
        confusion(gold, predicted)
