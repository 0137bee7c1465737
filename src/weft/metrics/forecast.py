"""Errors of forecasts beside those of simple ones, and how often the truth lies between two quantiles.

    MAE = Σ |y - f| / N        RMSE = √(Σ (y - f)² / N)        sMAPE = Σ 2 |y - f| / (|y| + |f|) / N
    MASE = Σ |y - f| / e / N                          e: mean |y_t - y_{t-m}| over the training part of the series
    quantile loss = Σ_τ 2 Σ max(τ (y - q), (τ - 1)(y - q)) / Σ |y| / Q
    coverage = share of y between the lowest and the highest quantile

Only observed values count; a series without an error e, because it is constant in training, does not count in MASE.
m season, N values, Q levels τ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from weft.metrics.scores import ratio

Numbers = NDArray[np.float64]

SUMS: Final = ("count", "distance", "squares", "scaled", "compared", "relative", "pinball", "size", "inside")
"""The names of the sums over observed values; `compared` counts those of MASE."""

POINT_SUMS: Final = 6
"""How many of the sums follow from a forecast without quantiles."""


def point_sums(gold: Numbers, point: Numbers, error: Numbers) -> Numbers:
    """gold (B, H) with NaN where it is missing, point (B, H), error e (B,), NaN where a series has none
    -> the first six sums over all."""
    real = ~np.isnan(gold)
    y = np.where(real, gold, 0.0)
    distance = np.where(real, np.abs(y - point), 0.0)
    both = np.where(real, np.abs(y) + np.abs(point), 0.0)
    relative = np.divide(2 * distance, both, out=np.zeros_like(both), where=both > 0)
    has_error = ~np.isnan(error)
    scaled, compared = (distance / np.where(has_error, error, np.inf)[:, None]), real[has_error].sum()
    return np.array([real.sum(), distance.sum(), np.square(distance).sum(), scaled.sum(), compared, relative.sum()])


def quantile_sums(gold: Numbers, quantiles: Numbers, levels: Sequence[float]) -> Numbers:
    """gold (B, H), quantiles (B, H, Q) -> the sums that follow from the quantiles."""
    real = ~np.isnan(gold)
    y = np.where(real, gold, 0.0)
    distance = y[..., None] - quantiles
    tau = np.asarray(levels)
    pinball = 2 * np.maximum(tau * distance, (tau - 1) * distance).mean(-1)
    inside = (quantiles[..., 0] <= y) & (y <= quantiles[..., -1])
    return np.array([(pinball * real).sum(), np.abs(y).sum(), (inside & real).sum()])


def forecast_metrics(sums: Sequence[float] | Numbers) -> dict[str, float]:
    """The metrics of such sums: those of quantiles where their sums are there, MASE where a series has an error."""
    count, distance, squares, scaled, compared, relative, *rest = map(float, sums)
    found = {
        **({} if count and not compared else {"mase": ratio(scaled, compared)}),
        "mae": ratio(distance, count),
        "rmse": math.sqrt(ratio(squares, count)),
        "smape": ratio(relative, count),
    }
    if rest:
        pinball, size, inside = rest
        found |= {"quantile_loss": ratio(pinball, size), "coverage": ratio(inside, count)}
    return found


def seasonal_error(numbers: Numbers, season: int) -> float:
    """e of a series (T,) with NaN where it is missing; where it has no two values a season apart, or they never differ,
    the error of the naive forecast; 1 where that is nothing either."""
    for lag in (season, 1):
        if 0 < lag < len(numbers):
            found = np.abs(numbers[lag:] - numbers[:-lag])
            found = found[~np.isnan(found)]
            if len(found) and found.mean() > 0:
                return float(found.mean())
    return 1.0


def simple_baselines(history: Numbers, *, season: int, horizon: int) -> dict[str, Numbers]:
    """history (B, L) with NaN where it is missing -> naive, seasonal naive and drift forecasts (B, H).

    Missing values are replaced by those before them. Drift is the line from the first to the last observed value.
    """
    batch, length = history.shape
    places = np.arange(length)
    real = ~np.isnan(history)
    first = np.where(real.any(1), real.argmax(1), length - 1)
    before = np.maximum(np.maximum.accumulate(np.where(real, places, 0), axis=1), first[:, None])
    filled = np.nan_to_num(np.take_along_axis(history, before, axis=1))
    last, ahead = filled[:, -1:], np.arange(1, horizon + 1)
    season = season if season <= length else 1
    phase = length - season + (ahead - 1) % season
    end = np.where(real.any(1), length - 1 - real[:, ::-1].argmax(1), length - 1)
    slope = (last[:, 0] - filled[np.arange(batch), first]) / np.maximum(end - first, 1)
    return {
        "naive": np.repeat(last, horizon, axis=1),
        "seasonal_naive": filled[:, phase],
        "drift": last + slope[:, None] * (ahead + (length - 1 - end)[:, None]),
    }
