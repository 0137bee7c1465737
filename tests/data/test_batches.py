"""Batches: every row once, within the budget, little padding, new company in every epoch."""

import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.data import Batches, PackedBatches, batches
from weft.errors import ConfigError

some_length = st.integers(0, 40) | st.integers(0, 3000)
some_lengths = st.lists(some_length, max_size=80) | st.lists(st.tuples(some_length, some_length), max_size=80)
budgets = st.integers(1, 5000)


def check_laws(batches: list[np.ndarray], lengths: np.ndarray, budget: int) -> None:
    rows = np.concatenate(batches) if batches else np.zeros(0, dtype=np.int64)
    assert sorted(rows.tolist()) == list(range(len(lengths)))
    for batch in batches:
        assert batch.dtype == np.int64
        assert len(batch) == 1 or len(batch) * lengths[batch].max() <= budget


def padding(batches: list[np.ndarray], lengths: np.ndarray) -> float:
    padded = sum(len(batch) * int(lengths[batch].max()) for batch in batches)
    return 1 - int(lengths.sum()) / padded


def test_padding_is_what_batches_say_it_is() -> None:
    batches = Batches([[2, 1], [2, 3], [1, 1]], batch_tokens=6)
    # Two rows padded to 2 and 3, then one alone: 6 + 4 places and 2, of which 10 are real.
    assert [rows.tolist() for rows in batches.in_order()] == [[1, 0], [2]]
    assert batches.padding(batches.in_order()) == pytest.approx(1 - 10 / 12)
    assert Batches([], batch_tokens=6).padding([]) == 0.0


@pytest.mark.covers("T4")
@given(lengths=some_lengths, budget=budgets, seed=st.integers(0, 9), number=st.integers(0, 9))
def test_every_row_is_in_one_batch_within_the_budget(lengths: list[Any], budget: int, seed: int, number: int) -> None:
    batches = Batches(lengths, batch_tokens=budget, seed=seed)
    array = np.array([np.max(row) for row in lengths], dtype=np.int64)
    check_laws(batches.epoch(number), array, budget)
    check_laws(batches.in_order(), array, budget)


@given(lengths=some_lengths, budget=budgets, seed=st.integers(0, 9), number=st.integers(0, 9))
def test_an_epoch_can_be_drawn_again(lengths: list[Any], budget: int, seed: int, number: int) -> None:
    first = Batches(lengths, batch_tokens=budget, seed=seed)
    first.epoch(number + 1)
    again = Batches(lengths, batch_tokens=budget, seed=seed).epoch(number)
    assert [batch.tolist() for batch in first.epoch(number)] == [batch.tolist() for batch in again]


def test_evaluation_goes_from_long_to_short() -> None:
    batches = Batches([3, 9, 1, 2, 30, 3, 0], batch_tokens=9).in_order()
    assert [batch.tolist() for batch in batches] == [[4], [1], [0, 5, 3], [2, 6]]


def test_many_pools_keep_the_laws() -> None:
    lengths = np.random.default_rng(0).integers(1, 60, size=30_000)
    check_laws(Batches(lengths, batch_tokens=100).epoch(0), lengths, 100)


def sentences(count: int) -> np.ndarray:
    """Subwords per sentence: log-normal around 20, with a tail to 400, as in parallel corpora."""
    return np.clip(np.random.default_rng(1).lognormal(3.0, 0.6, count), 1, 400).astype(np.int64)


def documents(count: int) -> np.ndarray:
    """Words per review: log-normal around 180, hardly two of the same length."""
    return np.clip(np.random.default_rng(2).lognormal(5.2, 0.7, count), 10, 2500).astype(np.int64)


def pairs(count: int) -> np.ndarray:
    """Sentences and their translations, a little longer and some much so."""
    draw = np.random.default_rng(3)
    source = sentences(count)
    target = np.clip(source * draw.lognormal(0.05, 0.15, count) + draw.normal(0, 1, count), 1, 400)
    return np.stack([source, target.astype(np.int64)], axis=1)


def captions(count: int) -> np.ndarray:
    """Short sentences of much the same length, and their translations."""
    draw = np.random.default_rng(4)
    source = np.clip(draw.lognormal(2.6, 0.3, count), 4, 45)
    return np.stack([source, np.clip(source * draw.lognormal(0.0, 0.13, count), 4, 45)], axis=1).astype(np.int64)


@pytest.mark.covers("T4")
@pytest.mark.parametrize("lengths", [pairs(100_000), captions(29_000)], ids=len)
def test_neither_side_of_pairs_is_padded_much(lengths: np.ndarray) -> None:
    batches = Batches(lengths, batch_tokens=4096)
    epoch = batches.epoch(0)
    sides = [padding(epoch, lengths[:, side]) for side in (0, 1)]
    assert max(sides) < 0.05
    assert min(sides) <= batches.padding(epoch) <= max(sides)
    assert len(epoch) <= 1.1 * lengths.max(1).sum() / 4096 + 1
    again = {frozenset(batch.tolist()) for batch in batches.epoch(1)}
    assert len(again & {frozenset(batch.tolist()) for batch in epoch}) < 0.25 * len(epoch)


@pytest.mark.parametrize("lengths", [sentences(100_000), sentences(20_000), documents(25_000)], ids=len)
def test_little_of_the_budget_is_padding_or_left_over(lengths: np.ndarray) -> None:
    batches = Batches(lengths, batch_tokens=4096).epoch(0)
    assert padding(batches, lengths) < 0.05
    assert len(batches) <= 1.1 * lengths.sum() / 4096 + 1


@pytest.mark.parametrize("lengths", [sentences(5_000), documents(2_000)], ids=len)
def test_rows_meet_new_partners_in_every_epoch(lengths: np.ndarray) -> None:
    batches = Batches(lengths, batch_tokens=4096)
    first, second = ({frozenset(batch.tolist()) for batch in batches.epoch(number)} for number in (0, 1))
    assert len(first & second) < 0.25 * len(first)


def test_the_order_of_lengths_is_random() -> None:
    lengths = sentences(50_000)
    longest = np.array([lengths[batch].max() for batch in Batches(lengths, batch_tokens=4096).epoch(0)])
    assert abs(np.corrcoef(np.arange(len(longest)), longest)[0, 1]) < 0.2


def test_seeds_differ() -> None:
    lengths = sentences(500)
    assert Batches(lengths, batch_tokens=512).epoch(0)[0].tolist() != (
        Batches(lengths, batch_tokens=512, seed=1).epoch(0)[0].tolist()
    )


def test_a_budget_without_room_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"train\.batch_tokens: 0 is too small"):
        Batches([1], batch_tokens=0)


@pytest.mark.parametrize("kind", [Batches, PackedBatches])
def test_an_epoch_that_was_drawn_before_is_the_same_as_one_drawn_anew(
    kind: type[Batches] | type[PackedBatches],
) -> None:
    lengths = np.random.default_rng(0).integers(1, 60, size=2000)
    batches = kind(lengths, batch_tokens=300)
    for number in (0, 0, 1, 0):
        found = batches.epoch(number)
        anew = kind(lengths, batch_tokens=300).epoch(number)
        assert [rows.tolist() for rows in found] == [rows.tolist() for rows in anew]


def test_an_epoch_of_millions_of_rows_is_drawn_in_seconds() -> None:
    """Measured in processor time, so that a busy machine fails nothing; it takes about 0.2 s."""
    lengths = np.random.default_rng(0).integers(1, 60, size=2_000_000)
    began = time.process_time()
    assert sum(map(len, Batches(lengths, batch_tokens=4096).epoch(7))) == len(lengths)
    assert time.process_time() - began < 2


@pytest.mark.parametrize("count", [16, 17, 1000])
def test_of_very_many_rows_runs_are_shuffled_and_every_row_is_there_once(monkeypatch, count):
    monkeypatch.setattr(batches, "MIN_ROWS_FOR_POOLS", 1)
    plan = Batches(np.arange(count) % 9 + 1, batch_tokens=20)
    first, second = (np.concatenate(plan.epoch(number)).tolist() for number in (0, 1))
    assert sorted(first) == sorted(second) == list(range(count))
    assert first != second
    again = Batches(plan.lengths, batch_tokens=20).epoch(1)
    backwards = [again[place].tolist() for place in reversed(range(len(again)))][::-1]
    assert backwards == [rows.tolist() for rows in plan.epoch(1)], "in whatever order they are asked for"
    assert int(plan.lengths.argmax()) in plan.epoch(0)[plan.largest(0)]
