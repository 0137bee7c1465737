"""The frequency of a series: reading, finding and continuing time stamps.

A frequency is a count and a unit: s, min, h, D (day), B (day from Monday to Friday), W (week), M (month), Y (year), or
step for a series whose steps are numbered. Stamps are seconds since 1970, without a time zone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.errors import ConfigError, did_you_mean

Stamps = NDArray[np.int64]

DAY: Final = 86_400
SECONDS: Final = {"s": 1, "min": 60, "h": 3600, "D": DAY, "W": 7 * DAY, "step": 1}
"""Seconds of a unit of fixed length."""

UNITS: Final = ("s", "min", "h", "D", "B", "W", "M", "Y", "step")

NAMES: Final = {
    "second": "s", "minute": "min", "t": "min", "hour": "h", "day": "D", "d": "D", "business day": "B", "week": "W",
    "w": "W", "month": "M", "ms": "M", "me": "M", "year": "Y", "y": "Y", "ys": "Y", "ye": "Y", "a": "Y",
}  # fmt: skip
"""Other names of units, in lower case; "m" alone could be a month or a minute and is a month."""

SEASONS: Final = {"s": 60, "min": 60, "h": 24, "D": 7, "B": 5, "W": 52, "M": 12, "Y": 1, "step": 1}
"""The usual season of a unit, and the horizon that people want where the data shows none."""

HORIZONS: Final = {"s": 60, "min": 60, "h": 24, "D": 14, "B": 10, "W": 8, "M": 12, "Y": 4, "step": 12}

MONTHS_PER: Final = {"M": 1, "Y": 12}

MONDAY: Final = 4
"""Day 0 is a Thursday, so day 4 is the first Monday."""


class Frequency(NamedTuple):
    """The distance of two steps."""

    every: int
    unit: str

    def __str__(self) -> str:
        return self.unit if self.every == 1 else f"{self.every}{self.unit}"

    def position(self, start: int, stamp: int) -> int:
        """The number of steps from one stamp to another, rounded down."""
        return int(self.positions(start, np.array([stamp]))[0])

    def positions(self, start: int, stamps: Stamps) -> Stamps:
        """The number of steps from `start` to each stamp, rounded down."""
        if self.unit in MONTHS_PER:
            every = self.every * MONTHS_PER[self.unit]
            found: Stamps = (_month(stamps) - _month(np.array([start]))) // every
            return found
        if self.unit == "B":
            return (_business(stamps) - _business(np.array([start]))) // self.every
        return (stamps - start) // (self.every * SECONDS[self.unit])

    def stamps(self, start: int, first: int, count: int) -> Stamps:
        """The stamps of steps `first` to `first + count`, where step 0 is `start`."""
        steps = (first + np.arange(count, dtype=np.int64)) * self.every
        if self.unit in MONTHS_PER:
            first_month = _month(np.array([start]))
            begin, end = (_month_start(first_month + steps * MONTHS_PER[self.unit] + more) for more in (0, 1))
            day, rest = divmod(start - int(_month_start(first_month)[0]), DAY)
            days = (end - begin) // DAY
            found: Stamps = begin + np.where(_is_month_end(start), days - 1, np.minimum(day, days - 1)) * DAY + rest
            return found
        if self.unit == "B":
            number = _business(np.array([start])) + steps
            return ((number // 5) * 7 + number % 5 + MONDAY) * DAY + start % DAY
        return start + steps * SECONDS[self.unit]

    def show(self, start: int, first: int, count: int, *, utc: bool = False) -> list[str]:
        """The stamps as text, only as precise as the unit needs; a time of day in `utc` ends in Z."""
        stamps = self.stamps(start, first, count)
        if self.unit == "step":
            return [str(stamp) for stamp in stamps.tolist()]
        dates = stamps.astype("datetime64[s]")
        if np.any(stamps % DAY) or self.unit not in ("D", "B", "W", "M", "Y"):
            return [str(date).replace("T", " ") + "Z" * utc for date in dates]
        days = dates.astype("datetime64[D]")
        months = days.astype("datetime64[M]")
        first_days = self.unit in MONTHS_PER and bool((months.astype("datetime64[D]") == days).all())
        return [str(date) for date in (months if first_days else days)]


def _month(stamps: Stamps) -> Stamps:
    return stamps.astype("datetime64[s]").astype("datetime64[M]").astype(np.int64)


def _month_start(months: Stamps) -> Stamps:
    return months.astype("datetime64[M]").astype("datetime64[s]").astype(np.int64)


def _business(stamps: Stamps) -> Stamps:
    """The number of each stamp's day among those from Monday to Friday; a weekend belongs to its Friday."""
    days = stamps // DAY - MONDAY
    found: Stamps = (days // 7) * 5 + np.minimum(days % 7, 4)
    return found


def _is_month_start(stamp: int) -> bool:
    return int(_month_start(_month(np.array([stamp])))[0]) // DAY == stamp // DAY


def _is_month_end(stamp: int) -> bool:
    return _is_month_start(stamp + DAY)


def read_frequency(text: str) -> Frequency:
    """The frequency that a text spells: "h", "15min", "month"; a ConfigError for anything else."""
    found = re.fullmatch(r"\s*(\d{0,6})\s*([A-Za-z ]+?)s?\s*", text) or re.fullmatch(r"\s*(\d{0,6})\s*(s)\s*", text)
    if found is not None:
        unit = found[2] if found[2] in UNITS else NAMES.get(found[2].lower(), "")
        if found[2].lower() in ("q", "qs", "quarter"):
            return Frequency(3 * int(found[1] or 1), "M")
        if unit and int(found[1] or 1):
            return Frequency(int(found[1] or 1), unit)
    cure = f'a count and a unit, such as "15min"; {did_you_mean(text, UNITS)}'
    raise ConfigError("is no frequency", where=f'data.frequency = "{text}"', cure=cure)


def find_frequency(stamps: Sequence[int] | Stamps, *, numbered: bool) -> Frequency:
    """The most frequent distance of sorted stamps; of equally frequent ones the smallest."""
    ordered = np.asarray(stamps, dtype=np.int64)
    unit = "step" if numbered else "s"
    gaps = np.diff(ordered)
    if not len(gaps):
        return Frequency(1, "step" if numbered else "D")
    kinds, counts = np.unique(gaps, return_counts=True)
    usual = int(kinds[np.argmax(counts)])
    if numbered:
        return Frequency(max(1, usual), unit)
    months = np.diff(_month(ordered))
    if usual >= 28 * DAY and len(months):
        kinds, counts = np.unique(months, return_counts=True)
        every = max(1, int(kinds[np.argmax(counts)]))
        return Frequency(every // 12, "Y") if every % 12 == 0 else Frequency(every, "M")
    if usual == DAY and _only_weekdays(ordered):
        return Frequency(1, "B")
    for unit in ("W", "D", "h", "min", "s"):
        if usual % SECONDS[unit] == 0:
            return Frequency(max(1, usual // SECONDS[unit]), unit)
    raise AssertionError("every distance is a number of seconds")


def _only_weekdays(stamps: Stamps) -> bool:
    """Whether more than a week of days has no weekend."""
    days = (stamps // DAY - MONDAY) % 7
    return bool(len(stamps) > 5 and stamps[-1] - stamps[0] > 7 * DAY and (days < 5).all())


def calendar(stamps: Stamps, cycles: Sequence[str]) -> NDArray[np.float64]:
    """stamps (T,) -> sine and cosine of the phase in each cycle of the calendar, (T, 2 C)."""
    years = stamps.astype("datetime64[s]").astype("datetime64[Y]")
    begin = years.astype("datetime64[s]").astype(np.int64)
    length = (years + 1).astype("datetime64[s]").astype(np.int64) - begin
    days = stamps / DAY
    phases = {"day": days % 1, "week": (days - MONDAY) % 7 / 7, "year": (stamps - begin) / length}
    waves = [wave(2 * np.pi * phases[cycle]) for cycle in cycles for wave in (np.sin, np.cos)]
    return np.stack(waves, axis=1) if waves else np.zeros((len(stamps), 0))


def find_cycles(frequency: str, seconds: int) -> list[str]:
    """The cycles of the calendar that steps of this frequency resolve and that occur at least twice in a time."""
    unit = read_frequency(frequency).unit if frequency else "step"
    resolved = {"s": 3, "min": 3, "h": 3, "D": 2, "B": 2, "W": 1, "M": 1}.get(unit, 0)
    cycles = [("year", 365 * DAY), ("week", 7 * DAY), ("day", DAY)][:resolved]
    return [name for name, length in reversed(cycles) if seconds >= 2 * length]
