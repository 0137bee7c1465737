"""The forecast of a series as an answer, and the table of forecasts that `weft predict` writes."""

from __future__ import annotations

import csv
import io
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from weft.data import BadLines, Input
from weft.data.series import Series
from weft.tasks.results import Prediction, show_number
from weft.tasks.sections import Tree


@dataclass(frozen=True)
class SeriesForecast(Prediction):
    """The next steps of a series: `values` are the point forecasts, `quantiles` those of each level."""

    series: str
    times: tuple[str, ...]
    values: tuple[float, ...]
    quantiles: Mapping[float, tuple[float, ...]]
    history: Series | None = None
    """The steps that the forecast follows, for a picture."""

    def __str__(self) -> str:
        return self.line()

    def line(self, *, probabilities: bool = False) -> str:
        return "\t".join(show_number(value) for value in self.values)

    def record(self) -> Tree:
        levels = {f"{level:g}": list(values) for level, values in self.quantiles.items()}
        return {"series": self.series, "time": list(self.times), "forecast": list(self.values), "quantiles": levels}

    def cells(self, name: str, *, probabilities: bool = False) -> Tree:
        """A list for each column, with a number for each step."""
        levels = {f"q{level:g}": list(values) for level, values in self.quantiles.items()}
        return {"series": self.series, "time": list(self.times), name: list(self.values), **levels}


def _spell(cell: str | float) -> str:
    return show_number(cell) if isinstance(cell, float) else cell


@dataclass
class SeriesInputs:
    """A table of series as inputs; the answers are a table of their own, with a row for each step of each forecast."""

    records: Iterable[Series]
    bad: BadLines
    """What was read; its notes are warnings after the last series."""
    plain: ClassVar = False
    begun: bool = field(default=False, init=False)
    """Whether the header is written, which depends on the columns of the first answer."""

    def __iter__(self) -> Iterator[Input]:
        for record in self.records:
            yield Input(record.place, record, record)
        for text in self.bad.notes:
            warnings.warn(text, stacklevel=2)

    def begin(self) -> str:
        return ""

    def write(self, item: Input, line: str, cells: Mapping[str, Any]) -> str:
        header = "" if self.begun else _row(list(cells))
        self.begun = True
        name, *columns = cells.values()
        rows = (_row([name, *map(_spell, step)]) for step in zip(*columns, strict=True))
        return header + "".join(rows)

    def end(self) -> str:
        return ""


def _row(cells: Sequence[str]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(cells)
    return line.getvalue()
