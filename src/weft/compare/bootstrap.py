"""The paired bootstrap: how much a difference between two runs varies with the choice of examples.

Examples are drawn with replacement, the same ones for every run, and each draw is scored; the middle 95% of the
differences are the interval. It does not cover chance in training: for that, train with other seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from weft.compare.tally import Tally
from weft.errors import DataError

SAMPLES = 1000
COVERAGE_PERCENT = 95
MIN_RECORDS = 30
"""With fewer records, rows are drawn instead, where all runs cut the text alike."""


class Interval(NamedTuple):
    """A difference, and the bounds of 95% of the draws."""

    difference: float
    low: float
    high: float

    @property
    def sure(self) -> bool:
        """Whether zero lies outside."""
        return self.low > 0 or self.high < 0


def paired_intervals(tallies: Sequence[Tally], *, samples: int = SAMPLES, seed: int = 0) -> list[dict[str, Interval]]:
    """The difference of each score to that of the first tally, for each later tally. All are of the same file."""
    units = drawn_units(tallies)
    draws = draw_scores(tallies, samples=samples, seed=seed)
    first = units[0].metrics()
    return [
        {
            name: interval(_subtract(value, first[name]), _differences(name, draws[0], drawn))
            for name, value in unit.metrics().items()
            if name in first
        }
        for unit, drawn in zip(units[1:], draws[1:], strict=True)
    ]


def draw_scores(tallies: Sequence[Tally], *, samples: int = SAMPLES, seed: int = 0) -> list[list[dict[str, float]]]:
    """The scores of each tally in each draw; the draws are the same for all tallies."""
    units = drawn_units(tallies)
    size = len(units[0].numbers)
    random = np.random.default_rng(seed)
    draws: list[list[dict[str, float]]] = [[] for _ in units]
    for _ in range(samples):
        times = np.bincount(random.integers(size, size=size), minlength=size)
        for found, unit in zip(draws, units, strict=True):
            found.append(unit.metrics(times))
    return draws


def _subtract(value: float, other: float) -> float:
    """The difference of two scores; between two infinite ones there is none."""
    return 0.0 if value == other else value - other


def _differences(name: str, first: Sequence[Mapping[str, float]], other: Sequence[Mapping[str, float]]) -> list[float]:
    """The difference of a score in each draw; a draw in which nothing was counted for it has 0."""
    return [_subtract(theirs.get(name, 0.0), ours.get(name, 0.0)) for ours, theirs in zip(first, other, strict=True)]


def interval(difference: float, draws: Sequence[float]) -> Interval:
    """A difference, or any other number, with the bounds of 95% of its draws."""
    tail = (100 - COVERAGE_PERCENT) / 2
    method: Literal["linear", "nearest"] = (
        "linear" if np.isfinite(draws).all() else "nearest"
    )  # there is nothing between a number and infinity
    low, high = np.percentile(draws, [tail, 100 - tail], method=method)
    return Interval(difference, float(low), float(high))


def drawn_units(tallies: Sequence[Tally]) -> list[Tally]:
    """The tallies whose rows are drawn: by record, or by row where the records are too few to draw from."""
    records = [tally.by_record() for tally in tallies]
    sizes = [len(unit.numbers) for unit in records]
    if len(set(sizes)) > 1:
        raise DataError(
            f"the runs read {', '.join(map(str, sizes))} examples from the same file",
            cure="compare runs that read the file alike: data.unit, data.text, …",
        )
    rows = {len(tally.numbers) for tally in tallies}
    if any(tally.rows_overlap for tally in tallies):
        return records
    if sizes[0] < MIN_RECORDS and len(rows) == 1 and rows.pop() > sizes[0]:
        return list(tallies)
    return records
