"""Finds the columns of a table of series: time stamps by their form, names by what they tell apart, numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from weft.data.series_time import read_stamp
from weft.data.steps import MAX_NUMBER
from weft.errors import ConfigError, DataError, did_you_mean

MISSING: Final = frozenset(("", "na", "n/a", "nan", "null", "none", "-"))
"""Cells without a number, in lower case."""

SAMPLE_ROWS: Final = 200
"""Rows by which columns are recognised."""

SERIES_NAMES: Final = ("series", "series_id", "unique_id", "item_id", "id", "name")
TARGET_NAMES: Final = ("value", "target", "y")
TIME_NAMES: Final = ("time", "date", "datetime", "timestamp", "ds", "month", "day", "week", "year", "period", "step")
"""The usual names of columns, in lower case."""


class SeriesColumns(NamedTuple):
    """The columns of a table, as far as they are known."""

    target: tuple[str, ...] = ()
    time: str | None = None
    series: str | None = None
    static: tuple[str, ...] = ()
    past: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    frequency: str | None = None


class SeriesRow(NamedTuple):
    """A row with its place: file and line, or the number of a record."""

    place: str
    cells: Sequence[Any]


class SeriesTable(NamedTuple):
    """All rows of a table, and the names of its columns."""

    name: str
    header: list[str]
    rows: list[SeriesRow]


def find_columns(table: SeriesTable, wanted: SeriesColumns) -> SeriesColumns:
    """The columns of a table: those that are wanted, which must be there, and those that are found."""
    settings = wanted._asdict()
    del settings["frequency"]
    for setting, value in settings.items():
        for name in (value,) if isinstance(value, str) else value or ():
            if name not in table.header:
                what = f'no column "{name}" for data.{setting}'
                raise DataError(what, where=f"{table.name}:1", cure=did_you_mean(name, table.header))
    sample = table.rows[:SAMPLE_ROWS]
    kinds = {name: _kind([row.cells[number] for row in sample]) for number, name in enumerate(table.header)}
    taken = {*wanted.target, *wanted.static, *wanted.past, *wanted.known, wanted.series} - {None}
    time = wanted.time or _find_time(kinds, taken)
    series = wanted.series or _find_series(table, kinds, {*taken, time}, time)
    target = wanted.target or _find_target(table, kinds, {*taken, time, series}, long=series is not None)
    twice = [name for name in target if name in (*wanted.past, *wanted.known, *wanted.static, time, series)]
    if twice:
        raise ConfigError("is a target too", where=f'column "{twice[0]}" in [data]', cure="name it once")
    return wanted._replace(target=tuple(target), time=time, series=series)


def _kind(cells: Iterable[Any]) -> str:
    """number, time, text, or empty for a column without a value."""
    values = [cell for cell in cells if str(cell).strip().lower() not in MISSING]
    if not values:
        return "empty"
    if all(number_of(value) is not None for value in values):
        return "number"
    return "time" if all(read_stamp(str(value)) is not None for value in values) else "text"


def _find_time(kinds: Mapping[str, str], taken: set[Any]) -> str | None:
    times = [name for name, kind in kinds.items() if kind == "time" and name not in taken]
    numbers = [name for name, kind in kinds.items() if kind == "number" and name not in taken]
    named = [name for name in numbers if name.lower() in TIME_NAMES]
    return next(iter([*times, *named]), None)


def _find_series(table: SeriesTable, kinds: Mapping[str, str], taken: set[Any], time: str | None) -> str | None:
    """The column of texts that tells rows with equal time stamps apart, or that has a usual name."""
    free = [name for name in table.header if name not in taken and kinds[name] in ("text", "number")]
    if time is None:
        return next((name for name in free if name.lower() in SERIES_NAMES), None)
    place = table.header.index(time)
    stamps = [str(row.cells[place]) for row in table.rows]
    if len(set(stamps)) == len(stamps):
        return None
    free.sort(key=lambda name: (kinds[name] != "text", name.lower() not in SERIES_NAMES))
    for name in free:
        if kinds[name] == "number" and name.lower() not in SERIES_NAMES:
            continue
        column = table.header.index(name)
        names = [str(row.cells[column]).strip() for row in table.rows]
        if len(set(zip(names, stamps, strict=True))) == len(stamps):
            return name
    return None


def _find_target(table: SeriesTable, kinds: Mapping[str, str], taken: set[Any], *, long: bool) -> list[str]:
    free = [name for name in table.header if name not in taken and kinds[name] == "number"]
    usual = [name for name in free if name.lower() in TARGET_NAMES]
    if long and len(free) > 1:
        free = usual[:1]
    if not free:
        cure = f"name the column to forecast: data.target=COLUMN; there are {', '.join(table.header)}"
        raise DataError("no column of numbers that could be the target", where=f"{table.name}:1", cure=cure)
    return free


def number_of(value: Any) -> float | None:
    """The number of a cell, NaN for a missing one, None for anything else."""
    if isinstance(value, str):
        text = value.strip()
        if text.lower() in MISSING:
            return math.nan
        value = text
    elif value is None or type(value).__name__ in ("NAType", "NaTType"):
        return math.nan
    if isinstance(value, bool):
        return None
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if math.isnan(found) or abs(found) <= MAX_NUMBER else None
