"""Spearman's rank correlation ρ: Pearson's correlation of the ranks; equal values share the mean of their ranks."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def spearman(gold: ArrayLike, predicted: ArrayLike) -> float:
    """ρ of two lists of N numbers; 0 where fewer than two pairs, or all values of one list are equal."""
    x, y = _centred_ranks(gold), _centred_ranks(predicted)
    norm = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / norm if norm else 0.0


def _centred_ranks(values: ArrayLike) -> NDArray[np.float64]:
    _, where, counts = np.unique(np.asarray(values, dtype=np.float64), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks = (last - (counts - 1) / 2)[where.reshape(-1)]
    centred: NDArray[np.float64] = ranks - ranks.mean() if len(ranks) else ranks
    return centred
