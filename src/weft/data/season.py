"""Finds the season of a series: the number of steps after which it repeats.

    r(k) = Σ_t x_t x_{t+k} / Σ_t x_t²          x: the series without its trend, k: lag

The season is the lag of the highest peak of the autocorrelation r, if it is high enough to be no accident. Lags that
the calendar suggests (24 of hours, 7 and 365 of days, 12 of months) are preferred to those beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from weft.data.series import Series, fill_forward
from weft.data.series_time import SEASONS, read_frequency
from weft.data.steps import Numbers

USUAL: Final[dict[str, tuple[int, ...]]] = {
    "s": (60,), "min": (60, 1440), "h": (24, 168), "D": (7, 365), "B": (5, 260), "W": (52,), "M": (12,), "Y": (),
    "step": (),
}  # fmt: skip
"""Seasons by the calendar for each unit of a frequency."""

MAX_SERIES: Final = 20
"""Series that vote on the season."""

MIN_PEAK: Final = 0.2
"""The least autocorrelation of a season."""

NEARLY: Final = 0.9
"""The share of the highest autocorrelation at which another one is as high, within the noise."""


def find_season(series: Sequence[Series], frequency: str) -> int:
    """The season of most series, of those at least half as long as the longest; 1 where they have none."""
    longest = sorted(series, key=lambda one: -one.end)[:MAX_SERIES]
    longest = [one for one in longest if 2 * one.end >= longest[0].end]
    found = [season_of(fill_forward(one.target[: one.end]), usual_seasons(frequency)) for one in longest]
    kinds, counts = np.unique(found, return_counts=True)
    return int(kinds[np.argmax(counts)]) if len(kinds) else 1


def usual_seasons(frequency: str) -> tuple[int, ...]:
    """The seasons that the calendar suggests."""
    count, unit = read_frequency(frequency) if frequency else (1, "step")
    return tuple(season // count for season in USUAL[unit] if season % count == 0 and season // count > 1)


def default_season(frequency: str) -> int:
    """The season of a frequency where there is too little data to find one."""
    count, unit = read_frequency(frequency) if frequency else (1, "step")
    return max(1, SEASONS[unit] // count)


def season_of(numbers: Numbers, usual: Sequence[int]) -> int:
    """The season of numbers (T,) without gaps: one that the calendar suggests if it is there, else the highest peak of
    the autocorrelation; 1 where there is none."""
    numbers = numbers - numbers.mean() if len(numbers) else numbers
    numbers = numbers / (float(np.abs(numbers).max(initial=0.0)) or 1.0)
    found = 1, 0.0
    for season in usual:
        if 2 * season < len(numbers) and (strength := calendar_strength(numbers, season)) > found[1] + 0.1:
            found = season, strength
    return found[0] if found[0] > 1 else highest_peak(autocorrelation(remove_trend(numbers)))


def calendar_strength(numbers: Numbers, season: int) -> float:
    """The autocorrelation at the season of numbers (T,) minus their mean over a season around each; 0 where a lag
    beside it has a higher one, or where it is no more than chance."""
    sums = np.cumsum(np.concatenate([[0.0], numbers]))
    before, after = season // 2, season - season // 2
    local = numbers[before : len(numbers) - after + 1] - (sums[season:] - sums[:-season]) / season
    correlations = autocorrelation(local - local.mean())
    if len(correlations) < season + 3:
        return 0.0
    own = float(correlations[season - 1 : season + 2].max())
    half = float(correlations[max(1, season // 2 - 1) : season // 2 + 2].min())
    peak = own >= NEARLY * float(correlations[season // 2 + 1 : season + season // 2].max(initial=0.0))
    return own if peak and own > chance(len(local)) and own - half > chance(len(local)) else 0.0


def chance(count: int) -> float:
    """An autocorrelation that so many numbers without a season hardly ever have."""
    return max(MIN_PEAK, 4 / float(np.sqrt(count)))


def highest_peak(correlations: Numbers) -> int:
    """The lag of the highest peak that occurs again at twice the lag; 1 where none is higher than chance, and above the
    lowest point before it."""
    count = len(correlations)
    unbiased = correlations * count / (count - np.arange(count))  # fewer products at longer lags
    lags = np.arange(2, max(2, count // 3))
    if not len(lags):
        return 1
    peak = (unbiased[lags] >= unbiased[lags - 1]) & (unbiased[lags] >= unbiased[lags + 1])
    lowest = np.minimum.accumulate(unbiased)[lags]
    least = chance(count)
    peak &= (unbiased[lags] > least) & (unbiased[lags] - lowest > least)
    again = np.array([_around(unbiased, 2 * int(lag)).max() for lag in lags])
    between = np.array([_around(unbiased, 3 * int(lag) // 2).min() for lag in lags])
    peak &= (again > least) & (again - between > least)
    if not peak.any():
        return 1
    # Multiples of a season are peaks nearly as high: the first of the high ones is the season itself.
    high = lags[peak & (unbiased[lags] >= 0.8 * unbiased[lags][peak].max())]
    near = np.arange(high[0], min(len(unbiased), int(high[0] * 1.1) + 1))
    return int(near[np.argmax(unbiased[near])])


def _around(correlations: Numbers, lag: int) -> Numbers:
    """The correlations at a lag and up to 5% beside it."""
    width = max(1, lag // 20)
    return correlations[max(1, lag - width) : lag + width + 1]


def remove_trend(numbers: Numbers) -> Numbers:
    """numbers (T,) minus their least-squares line."""
    x = np.linspace(-1.0, 1.0, len(numbers))
    slope = float(x @ (numbers - numbers.mean())) / float(x @ x)
    found: Numbers = numbers - numbers.mean() - slope * x
    return found


def autocorrelation(numbers: Numbers) -> Numbers:
    """r(0) … r(T - 1) of numbers with mean 0; zeros of numbers that never change."""
    size = 1 << (2 * len(numbers) - 1).bit_length()
    power = np.abs(np.fft.rfft(numbers, size)) ** 2
    sums = np.fft.irfft(power, size)[: len(numbers)]
    if sums[0] <= 1e-12 * max(1.0, float(np.abs(numbers).max()) ** 2):
        return np.zeros(len(numbers))
    found: Numbers = sums / sums[0]
    return found
