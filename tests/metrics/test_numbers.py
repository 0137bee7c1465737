"""Errors and rank correlation of numbers, by hand and by definition."""

from __future__ import annotations

import math

import numpy as np
import pytest

from weft.metrics import errors, spearman
from weft.metrics.numbers import ranks


@pytest.mark.covers("M2b")
def test_errors_by_hand() -> None:
    found = errors([1.0, 2.0, 6.0], [2.0, 2.0, 3.0])  # distances 1, 0, -3
    assert found["mae"] == pytest.approx(4 / 3)
    assert found["rmse"] == pytest.approx(math.sqrt(10 / 3))
    # Ranks 1, 2, 3 against 1.5, 1.5, 3: covariance 1.5, variances 2 and 1.5.
    assert found["spearman"] == pytest.approx(1.5 / math.sqrt(2 * 1.5))


def test_equal_numbers_share_their_ranks() -> None:
    assert ranks([5.0, 1.0, 5.0, 2.0]).tolist() == [3.5, 1.0, 3.5, 2.0]


def test_without_ties_it_is_the_formula_of_squared_rank_differences() -> None:
    random = np.random.default_rng(0)
    left, right = random.permutation(30), random.permutation(30)
    assert spearman(left, right) == pytest.approx(1 - 6 * ((left - right) ** 2).sum() / (30 * (30**2 - 1)))
    assert spearman(left, np.exp(left.astype(float))) == pytest.approx(1.0)  # any rising function keeps the ranks


def test_a_constant_has_no_correlation() -> None:
    assert spearman([1.0, 2.0, 3.0], [7.0, 7.0, 7.0]) == 0.0
    assert spearman([], []) == 0.0
