"""Packed batches: every row once, never more than the capacity, which is of a few shapes and nearly full."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.data import PackedBatches
from weft.data.packed import TOKENS_MULTIPLE
from weft.errors import ConfigError

some_length = st.integers(0, 40) | st.integers(0, 3000)
some_lengths = st.lists(some_length, max_size=80) | st.lists(st.tuples(some_length, some_length), max_size=80)
budgets = st.integers(1, 5000)


@given(lengths=some_lengths, budget=budgets, seed=st.integers(0, 9), number=st.integers(0, 9))
def test_every_row_is_in_one_batch_within_its_room(lengths: list[Any], budget: int, seed: int, number: int) -> None:
    batches = PackedBatches(lengths, batch_tokens=budget, seed=seed)
    epoch = batches.epoch(number)
    rows = np.concatenate(epoch) if epoch else np.zeros(0, dtype=np.int64)
    assert sorted(rows.tolist()) == list(range(len(lengths)))
    for batch in epoch:
        capacity, sides = batches.capacity(batch), batches.sides[batch]
        assert 1 <= len(batch) <= capacity.rows
        assert (sides.sum(0) <= capacity.tokens).all()
        assert sides.max() <= capacity.longest
    for capacity in batches.capacities.values():
        # One row of the class always fits, and products want round numbers.
        assert max(capacity.tokens) < max(budget, capacity.longest) + TOKENS_MULTIPLE
        assert all(tokens % TOKENS_MULTIPLE == 0 for tokens in capacity.tokens)


@given(lengths=some_lengths, budget=budgets, seed=st.integers(0, 9), number=st.integers(0, 9))
def test_an_epoch_can_be_drawn_again(lengths: list[Any], budget: int, seed: int, number: int) -> None:
    first = PackedBatches(lengths, batch_tokens=budget, seed=seed)
    first.epoch(number + 1)
    again = PackedBatches(lengths, batch_tokens=budget, seed=seed).epoch(number)
    assert [batch.tolist() for batch in first.epoch(number)] == [batch.tolist() for batch in again]


def test_epochs_and_seeds_differ() -> None:
    lengths = list(range(200))
    first = [batch.tolist() for batch in PackedBatches(lengths, batch_tokens=500).epoch(0)]
    assert first != [batch.tolist() for batch in PackedBatches(lengths, batch_tokens=500).epoch(1)]
    assert first != [batch.tolist() for batch in PackedBatches(lengths, batch_tokens=500, seed=1).epoch(0)]


@given(
    seed=st.integers(0, 99),
    mean=st.floats(2.2, 3.2),
    spread=st.floats(0.3, 0.7),
    ratio=st.floats(0.7, 1.4),
    budget=st.sampled_from([4096, 16_384]),
)
def test_sentences_leave_little_room_empty(seed: int, mean: float, spread: float, ratio: float, budget: int) -> None:
    """Lengths as sentences have them, on the other side about `ratio` times as many."""
    draw = np.random.default_rng(seed)
    source = draw.lognormal(mean, spread, size=int(90 * budget / np.exp(mean + spread**2 / 2)))
    target = source * ratio * draw.lognormal(0, 0.15, size=len(source))
    lengths = np.stack([source, target], 1).astype(np.int64) + 1
    batches = PackedBatches(lengths, batch_tokens=budget, seed=seed)
    epoch = batches.epoch(0)
    assert len(epoch) >= 50
    assert batches.padding(epoch) < 0.05


def test_padding_is_counted_over_all_sides() -> None:
    batches = PackedBatches([[10, 3], [4, 9]], batch_tokens=1000)
    (batch,) = batches.epoch(0)
    assert sorted(batch.tolist()) == [0, 1]
    assert batches.capacity(batch) == (3, (64, 64), 16)
    assert batches.padding([batch]) == pytest.approx(1 - 26 / 128)
    assert batches.padding([]) == 0.0


def test_rows_of_one_class_go_together() -> None:
    batches = PackedBatches([1, 16, 17, 32, 33], batch_tokens=1000)
    assert sorted(sorted(batch.tolist()) for batch in batches.epoch(0)) == [[0, 1], [2, 3], [4]]
    assert {size: capacity.longest for size, capacity in batches.capacities.items()} == {16: 16, 32: 32, 64: 64}


def test_no_room_at_all_is_named() -> None:
    with pytest.raises(ConfigError, match=r"train\.batch_tokens: 0 is too small for a single token"):
        PackedBatches([1], batch_tokens=0)
