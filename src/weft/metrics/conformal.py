"""Split-conformal quantiles: forecasts moved by the errors that they made on data that was not trained on.

    q'_τ = q_τ + s · E_(k)        E_(1) ≤ … ≤ E_(n): errors (y - q_τ) / s of validation windows, s their scale
    k = ⌈(n + 1) τ⌉ above the median, ⌊(n + 1) τ⌋ below it

A share τ of new targets then lies below q'_τ if their errors are like those of the validation windows (Vovk et al.,
2005). Errors of neighbouring windows depend on each other, so n is smaller than it looks; a series that changes its
ways breaks the promise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

MIN_RESIDUALS: Final = 200
"""Errors for each offset of a quantile; where there are fewer windows, neighbouring steps share theirs."""


def conformal_offsets(residuals: NDArray[np.float64], levels: Sequence[float]) -> NDArray[np.float64]:
    """residuals (N, H, Q) of N windows, NaN where a target is missing -> what to add to each quantile at each step
    (H, Q), in units of the scale; the median stays as it is."""
    windows, horizon, _ = residuals.shape
    reach = min(horizon, -(-MIN_RESIDUALS // max(1, windows)))
    offsets = np.zeros((horizon, len(levels)))
    for step in range(horizon):
        first = max(0, min(step - reach // 2, horizon - reach))
        for place, level in enumerate(levels):
            near = residuals[:, first : first + reach, place].ravel()
            near = np.sort(near[~np.isnan(near)])
            if level == 0.5 or not len(near):
                continue
            rank = (len(near) + 1) * level
            rank = math.ceil(rank) if level > 0.5 else math.floor(rank)
            offsets[step, place] = near[min(max(rank, 1), len(near)) - 1]
    return offsets


def cross_coverage(residuals: NDArray[np.float64], levels: Sequence[float]) -> float | None:
    """The share of targets between the lowest and the highest quantile where the offsets of each half of the windows
    are those of the other half; None where there are too few windows."""
    half = len(residuals) // 2
    if not half:
        return None
    covered = count = 0
    for fitted, held in ((residuals[:half], residuals[half:]), (residuals[half:], residuals[:half])):
        # A target lies above a moved quantile where its error is greater than the offset.
        rest = held - conformal_offsets(fitted, levels)
        known = ~np.isnan(rest[..., 0])
        covered += int(((rest[..., 0] >= 0) & (rest[..., -1] <= 0) & known).sum())
        count += int(known.sum())
    return covered / count if count else None
