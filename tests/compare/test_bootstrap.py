"""Intervals of differences: as wide as theory says, nothing where nothing differs, paired."""

from __future__ import annotations

import math

import numpy as np
import pytest

from weft.compare import Tally, paired_intervals
from weft.errors import DataError


def accuracy(right, records=None):
    """A tally of right and wrong answers."""
    numbers = np.stack([np.asarray(right, dtype=float), np.ones(len(right))], axis=1)
    places = np.arange(len(right)) if records is None else np.asarray(records)
    return Tally(numbers, places, lambda total: {"accuracy": total[0] / total[1]})


def test_a_run_does_not_differ_from_itself():
    right = np.arange(50) % 3 == 0
    (found,) = paired_intervals([accuracy(right), accuracy(right)])
    assert found["accuracy"] == (0.0, 0.0, 0.0)
    assert not found["accuracy"].sure


def test_the_interval_is_as_wide_as_theory_says():
    random = np.random.default_rng(0)
    first, second = random.random(2000) < 0.6, random.random(2000) < 0.7
    (found,) = paired_intervals([accuracy(first), accuracy(second)])
    difference, low, high = found["accuracy"]
    each = second.astype(float) - first
    half = 1.96 * each.std() / math.sqrt(2000)
    assert difference == pytest.approx(each.mean())
    assert (low, high) == pytest.approx((difference - half, difference + half), abs=0.1 * half)
    assert found["accuracy"].sure


def test_drawing_the_same_examples_for_both_makes_it_narrow():
    """One run is right wherever the other is and twice more: unpaired draws would be far wider."""
    first = np.arange(400) % 2 == 0
    second = first.copy()
    second[[1, 3]] = True
    (found,) = paired_intervals([accuracy(first), accuracy(second)])
    assert found["accuracy"].high - found["accuracy"].low < 0.02


def test_the_seed_fixes_the_draws():
    random = np.random.default_rng(0)
    pair = [accuracy(random.random(100) < share) for share in (0.4, 0.5)]
    assert paired_intervals(pair) == paired_intervals(pair)
    assert paired_intervals(pair) != paired_intervals(pair, seed=1)


def test_records_are_drawn_whole_unless_they_are_few():
    right = np.arange(120) % 3 == 0
    other = np.arange(120) % 2 == 0
    many, few = np.repeat(np.arange(40), 3), np.repeat(np.arange(2), 60)
    whole = paired_intervals([accuracy(right, many), accuracy(other, many)])[0]["accuracy"]
    rows = paired_intervals([accuracy(right, few), accuracy(other, few)])[0]["accuracy"]
    assert rows == paired_intervals([accuracy(right), accuracy(other)])[0]["accuracy"]
    assert whole != rows
    assert whole.difference == pytest.approx(rows.difference)


def test_runs_that_read_a_file_differently_have_no_pairs():
    with pytest.raises(DataError, match=r"read 40, 39 examples"):
        paired_intervals([accuracy(np.ones(40)), accuracy(np.ones(39))])
