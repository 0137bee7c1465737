"""A series of numbers in time: the target, its covariates, and where in time it begins.

    steps (T, 1 + P + K)     the target, P columns known only of the past, K columns known of the future too

A missing number is NaN. Steps are equally spaced: a time stamp that a file leaves out is a step without a target.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from weft.data.series_time import Frequency, read_frequency
from weft.data.steps import Numbers, Steps


@dataclass(frozen=True, slots=True)
class Series:
    """One series, or a window of one. `place` is the file and line of its first step."""

    name: str
    steps: Steps
    place: str = ""
    start: int = 0
    """The first time stamp, in seconds since 1970; without a frequency the number of the first step."""
    frequency: str = ""
    """The distance of two steps, such as "15min" or "M"; empty where there are no dates."""
    static: tuple[float, ...] = ()
    """Numbers that belong to the whole series."""
    categories: tuple[tuple[str, str], ...] = ()
    """The column and the text of each feature of the whole series that is a text; an empty text is a missing one."""
    origin: int = 0
    """The first step whose target is to be forecast in an evaluation; those before it are history."""
    season: int = 1
    """Steps after which the series repeats; 1 where it does not."""
    columns: tuple[str, ...] = ()
    """The columns of the file that the target, the time stamps and the name come from; "" for one that is not there."""
    utc: bool = False
    """Whether the time stamps of the file have offsets from UTC: they are read and shown in UTC."""

    @property
    def target(self) -> Numbers:
        """The target (T,), NaN where it is missing."""
        return self.steps.array[:, 0]

    @property
    def observed(self) -> NDArray[np.bool_]:
        """Where the target is known (T,)."""
        return ~np.isnan(self.target)

    @property
    def end(self) -> int:
        """The number of steps up to the last known target; later rows only have covariates."""
        known = np.flatnonzero(self.observed)
        return int(known[-1]) + 1 if len(known) else 0

    def times(self, first: int, count: int) -> list[str]:
        """The time stamps of `count` steps from step `first` on, which may lie after the end."""
        return self._clock.show(self.start, first, count, utc=self.utc)

    def seconds(self, first: int, count: int) -> NDArray[np.int64]:
        """The times of `count` steps from step `first` on, in seconds since 1970."""
        return self._clock.stamps(self.start, first, count)

    def steps_until(self, later: Series) -> int:
        """The steps from the beginning of this window of a series to that of another."""
        return self._clock.position(self.start, later.start)

    @property
    def _clock(self) -> Frequency:
        return read_frequency(self.frequency or "step")

    def window(self, first: int, stop: int) -> Self:
        """The steps from `first` to `stop`; those before the beginning and after the end are missing."""
        array = self.steps.array
        found = np.full((stop - first, array.shape[1]), np.nan)
        low, high = max(first, 0), min(stop, len(array))
        if low < high:
            found[low - first : high - first] = array[low:high]
        return replace(
            self,
            steps=Steps.of(found),
            start=int(self.seconds(first, 1)[0]),
            origin=max(0, self.origin - first),
        )

    def followed_by(self, later: Series) -> Self:
        """This series and its continuation, whose first step is the origin."""
        gap = self.steps_until(later) if self.frequency else self.end
        array = np.full((max(gap + len(later.steps), self.end), self.steps.width), np.nan)
        array[: self.end] = self.steps.array[: self.end]
        array[gap : gap + len(later.steps)] = later.steps.array
        return replace(self, steps=Steps.of(array), origin=gap)

    @property
    def shown(self) -> tuple[tuple[str, str], ...]:
        """The name and text of what a person wants to see of it."""
        target, time, _ = (*self.columns, "", "", "")[:3]
        first, last = (self.times(place, 1)[0] for place in (0, max(0, len(self.steps) - 1)))
        return (
            ("series", self.name),
            ("target", target),
            ("steps", f"{self.steps}, {int((~self.observed).sum()):,} without a target"),
            ("time", f"{first} to {last}" + (f", a step is {self.frequency} of {time}" if time else "")),
        )

    @property
    def key(self) -> str:
        return f"{self.name} {self.start} {self.steps.key}"

    @property
    def stratum(self) -> str | None:
        return None

    @property
    def sides(self) -> tuple[str, ...]:
        return ()

    @property
    def size(self) -> int:
        return self.steps.size


def fill_forward(array: Numbers) -> Numbers:
    """numbers (T,) -> the same with each missing number replaced by the one before it, or by the first."""
    known = np.flatnonzero(~np.isnan(array))
    if not len(known):
        return np.zeros_like(array)
    last = np.maximum.accumulate(np.where(np.isnan(array), known[0], np.arange(len(array))))
    found: Numbers = array[last]
    return found


def windows_of(series: Series, origins: Iterator[int] | range, *, history: int, horizon: int) -> Iterator[Series]:
    """The windows of `history` steps before each origin and `horizon` steps from it on."""
    for origin in origins:
        yield series.window(origin - history, origin + horizon)
