"""Batches: every row once, within the budget, little padding, new company in every epoch."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.data import Batches
from weft.errors import ConfigError

some_lengths = st.lists(st.integers(0, 40) | st.integers(0, 3000), max_size=80)
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


@given(lengths=some_lengths, budget=budgets, seed=st.integers(0, 9), number=st.integers(0, 9))
def test_every_row_is_in_one_batch_within_the_budget(lengths: list[int], budget: int, seed: int, number: int) -> None:
    batches = Batches(lengths, batch_tokens=budget, seed=seed)
    array = np.array(lengths, dtype=np.int64)
    check_laws(batches.epoch(number), array, budget)
    check_laws(batches.in_order(), array, budget)


@given(lengths=some_lengths, budget=budgets, seed=st.integers(0, 9), number=st.integers(0, 9))
def test_an_epoch_can_be_drawn_again(lengths: list[int], budget: int, seed: int, number: int) -> None:
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
    with pytest.raises(ConfigError, match=r"train\.batch_tokens: 0 leaves no room"):
        Batches([1], batch_tokens=0)
