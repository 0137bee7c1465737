"""Errors of predicted numbers, and their rank correlation.

    MAE = Σ |p - y| / N        RMSE = √(Σ (p - y)² / N)        Spearman = Pearson correlation of the ranks of p and y

Equal numbers share the mean of their ranks. Where either side is constant there is no correlation, and it counts as 0.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.metrics.scores import ratio


def ranks(numbers: ArrayLike) -> NDArray[np.float64]:
    """The rank of each number (N), from 1; equal numbers have the mean of their ranks."""
    _, where, counts = np.unique(np.asarray(numbers), return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    found: NDArray[np.float64] = (ends - (counts - 1) / 2)[where]
    return found


def spearman(gold: ArrayLike, predicted: ArrayLike) -> float:
    """The rank correlation of two lists of numbers, in -1 … 1."""
    left, right = (ranks(numbers) for numbers in (gold, predicted))
    if not len(left):
        return 0.0
    left, right = left - left.mean(), right - right.mean()
    return ratio(float(left @ right), math.sqrt(float(left @ left) * float(right @ right)))


def errors(gold: ArrayLike, predicted: ArrayLike) -> dict[str, float]:
    """MAE, RMSE and Spearman of two lists of numbers."""
    distances = np.asarray(predicted, dtype=np.float64) - np.asarray(gold, dtype=np.float64)
    count = len(distances)
    return {
        "mae": ratio(float(np.abs(distances).sum()), count),
        "rmse": math.sqrt(ratio(float(np.square(distances).sum()), count)),
        "spearman": spearman(gold, predicted),
    }
