"""Reads tables of numbers in time as series: a column per series (wide), or a row per series and time (long).

Columns that the settings do not name are found: the time stamps by their form, the series by the name that repeats its
time stamps, the targets among the columns of numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.data.badlines import BadLines
from weft.data.delimited import find_delimiter, split_lines
from weft.data.objects import Objects
from weft.data.series import Series
from weft.data.series_time import Frequency, find_frequency, read_frequency, read_stamp
from weft.data.sources import each_path, lines, suffix
from weft.data.steps import MAX_NUMBER, Steps
from weft.errors import ConfigError, DataError, counted, did_you_mean

MISSING: Final = frozenset(("", "na", "n/a", "nan", "null", "none", "-"))
"""Cells without a number, in lower case."""

SAMPLE_LINES: Final = 200
"""Lines that are read ahead to find the delimiter, and rows by which columns are recognised."""

SERIES_NAMES: Final = ("series", "series_id", "unique_id", "item_id", "id", "name")
TARGET_NAMES: Final = ("value", "target", "y")
TIME_NAMES: Final = ("time", "date", "datetime", "timestamp", "ds", "month", "day", "week", "year", "period", "step", "t")
"""The usual names of columns, in lower case."""

MAX_INSERTED: Final = 20
"""Steps that are inserted for each one in the file; more means that the frequency is wrong."""


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


def read_series(paths: str | list[str], columns: SeriesColumns, bad: BadLines) -> Iterator[Series]:
    """The series of a CSV or TSV with a header line; several files are parts of one table."""
    tables = [_read_file(name, bad) for name in each_path(paths)]
    first = tables[0]
    for table in tables[1:]:
        if table.header != first.header:
            raise DataError("has other columns than the file before it", where=f"{table.name}:1", cure="give the same")
    rows = [row for table in tables for row in table.rows]
    return _series_of(first._replace(rows=rows), columns, bad)


def series_of_objects(data: Objects, columns: SeriesColumns, bad: BadLines) -> Iterator[Series]:
    """The series of Python data: rows with names, or plain numbers in their order."""
    header: list[str] | None = None
    rows: list[SeriesRow] = []
    for number, row in enumerate(data.rows()):
        if isinstance(row, Series):
            yield row
            continue
        named = row if isinstance(row, Mapping) else getattr(row, "_asdict", lambda row=row: {"value": row})()
        header = header or [str(name) for name in named]
        rows.append(SeriesRow(f"{data.name}[{number}]", list(named.values())))
    if header is not None:
        yield from _series_of(SeriesTable(data.name, header, rows), columns, bad)


def _read_file(name: str, bad: BadLines) -> SeriesTable:
    numbered = lines(name, bad)
    sample = list(islice(numbered, SAMPLE_LINES))
    usual = "," if suffix(name) == ".csv" else "\t"
    delimiter = find_delimiter(sample, usual=usual, quoted=True, names=())
    cells = split_lines(_chain(sample, numbered), delimiter, quoted=True, name=name, bad=bad)
    number, header = next(cells, (0, []))
    header = [cell.strip() for cell in header]
    if not header:
        raise DataError("is empty", where=name, cure="give a table with a header line")
    if len(set(header)) < len(header) or any(_number(cell) is not None for cell in header):
        what = "the first line is no header with a name for each column"
        raise DataError(what, where=f"{name}:{number}", cure="write the names of the columns into it: time,value")
    rows = []
    for number, row in cells:
        if len(row) != len(header):
            what = f"{counted(len(row), 'cell')}, where the header has {len(header)}"
            bad.report(DataError(what, where=f"{name}:{number}", cure="give each row a cell for every column"))
            continue
        rows.append(SeriesRow(f"{name}:{number}", row))
    return SeriesTable(name, header, rows)


def _chain(first: list[tuple[int, str]], rest: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    yield from first
    yield from rest


def _series_of(table: SeriesTable, wanted: SeriesColumns, bad: BadLines) -> Iterator[Series]:
    if not table.rows:
        raise DataError("no rows after the header", where=table.name, cure="give at least one")
    found = find_columns(table, wanted)
    places = {name: number for number, name in enumerate(table.header)}
    groups: dict[str, list[SeriesRow]] = {}
    for row in table.rows:
        name = "" if found.series is None else str(row.cells[places[found.series]]).strip()
        groups.setdefault(name, []).append(row)
    for name, rows in groups.items():
        yield from _series_of_rows(name, rows, found, places, bad)


def _series_of_rows(
    name: str, rows: list[SeriesRow], columns: SeriesColumns, places: Mapping[str, int], bad: BadLines
) -> Iterator[Series]:
    """A series for each target, of the rows with one name."""
    rows, stamps, frequency = _in_order(name, rows, columns, places, bad)
    at = np.arange(len(rows)) if frequency is None else frequency.positions(int(stamps[0]), stamps)
    covariates = (*columns.past, *columns.known)
    numbers = _read_numbers(rows, (*columns.target, *covariates), places)
    static = _read_static(rows, columns.static, places)
    for number, target in enumerate(columns.target):
        array = np.full((int(at[-1]) + 1, 1 + len(covariates)), np.nan)
        array[at] = numbers[:, [number, *range(len(columns.target), numbers.shape[1])]]
        yield Series(
            name or target if len(columns.target) == 1 or not name else f"{name} {target}",
            Steps.of(array),
            rows[0].place,
            int(stamps[0]) if frequency is not None else 0,
            str(frequency) if frequency is not None else "",
            static,
            columns=(target, columns.time or "", columns.series or ""),
        )


def _in_order(
    name: str, rows: list[SeriesRow], columns: SeriesColumns, places: Mapping[str, int], bad: BadLines
) -> tuple[list[SeriesRow], NDArray[np.int64], Frequency | None]:
    """The rows in the order of their time stamps, these, and their frequency; None without time stamps."""
    if columns.time is None:
        return rows, np.arange(len(rows)), None
    column = places[columns.time]
    texts = [str(row.cells[column]).strip() for row in rows]
    numbered = all(text.lstrip("-").isdecimal() and len(text) != 8 for text in texts)
    stamps = np.zeros(len(rows), dtype=np.int64)
    for number, text in enumerate(texts):
        stamp = int(text) if numbered else read_stamp(text)
        if stamp is None:
            cure = "write it as 2024-01-31 or 2024-01-31 12:00:00, or name the column of time stamps: data.time=COLUMN"
            raise DataError(f'"{columns.time}" is {text!r:.40}, no time stamp', where=rows[number].place, cure=cure)
        stamps[number] = stamp
    if (np.diff(stamps) < 0).any():
        bad.note(f"{rows[0].place}: rows are not in the order of time, and were sorted")
        order = np.argsort(stamps, kind="stable")
        rows, stamps = [rows[place] for place in order], stamps[order]
    shown = f" of {name}" if name else ""
    doubled = np.flatnonzero(np.diff(stamps) == 0)
    if len(doubled):
        first, second = rows[doubled[0]], rows[doubled[0] + 1]
        what = f"the time stamp {first.cells[column]!s:.40}{shown} is there twice, first in {first.place}"
        cure = "remove one of the two, or name the column that tells series apart: data.series=COLUMN"
        raise DataError(what, where=second.place, cure=cure)
    frequency = find_frequency(stamps, numbered=numbered) if columns.frequency is None else read_frequency(columns.frequency)
    _check_regular(rows, stamps, frequency, shown, bad, given=columns.frequency is not None)
    return rows, stamps, frequency


def _check_regular(
    rows: list[SeriesRow], stamps: NDArray[np.int64], frequency: Frequency, shown: str, bad: BadLines, *, given: bool
) -> None:
    """Raise where a time stamp lies between two steps; note the steps that are missing."""
    at = frequency.positions(int(stamps[0]), stamps)
    exact = frequency.stamps(int(stamps[0]), 0, int(at[-1]) + 1)[at] if at[-1] < MAX_INSERTED * len(rows) + 1000 else None
    calendar = frequency.unit in ("M", "Y", "B")
    wrong = np.flatnonzero(np.diff(at) == 0) if calendar or exact is None else np.flatnonzero(exact != stamps) - 1
    cure = f'give the distance of two steps, as in data.frequency="{"h" if str(frequency) == "D" else "D"}", or mend the file'
    if len(wrong):
        later = rows[wrong[0] + 1]
        what = f"the time stamps{shown} are irregular: this one is no multiple of {frequency} after the first"
        raise DataError(what, where=later.place, cure=cure)
    if exact is None:
        what = f"the time stamps{shown} span {counted(int(at[-1]) + 1, 'step')} of {frequency} in {len(rows):,} rows"
        raise DataError(what, where=rows[0].place, cure=cure)
    gaps = np.flatnonzero(np.diff(at) > 1)
    if len(gaps):
        missing = int(at[-1]) + 1 - len(rows)
        first = rows[gaps[0] + 1].place
        bad.note(f"{counted(missing, 'step')}{shown} of {frequency} {'is' if missing == 1 else 'are'} not in the file, "
                 f"the first before {first}: read as missing")  # fmt: skip


def _read_numbers(rows: list[SeriesRow], names: Sequence[str], places: Mapping[str, int]) -> NDArray[np.float64]:
    """The numbers of all rows (N, C), NaN where they are missing."""
    found = np.empty((len(rows), len(names)))
    for column, name in enumerate(names):
        place = places[name]
        for number, row in enumerate(rows):
            value = _number(row.cells[place])
            if value is None:
                cure = "write a number such as 2.5, or leave the cell empty where it is missing"
                what = f'"{name}" is {row.cells[place]!r:.40}, not a number'
                raise DataError(what, where=row.place, cure=cure)
            found[number, column] = value
    return found


def _read_static(rows: list[SeriesRow], names: Sequence[str], places: Mapping[str, int]) -> tuple[float, ...]:
    numbers = _read_numbers(rows, names, places)
    for column, name in enumerate(names):
        other = np.flatnonzero(~(numbers[:, column] == numbers[0, column]))
        if len(other):
            what = f'"{name}" changes within a series, from {numbers[0, column]:g} to {numbers[other[0], column]:g}'
            cure = "a static feature is one number for a whole series; give others as data.past or data.known"
            raise DataError(what, where=rows[other[0]].place, cure=cure)
    return tuple(numbers[0].tolist())


def _number(value: Any) -> float | None:
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


def find_columns(table: SeriesTable, wanted: SeriesColumns) -> SeriesColumns:
    """The columns of a table: those that are wanted, which must be there, and those that are found."""
    settings = wanted._asdict()
    del settings["frequency"]
    for setting, value in settings.items():
        for name in (value,) if isinstance(value, str) else value or ():
            if name not in table.header:
                what = f'no column "{name}" for data.{setting}'
                raise DataError(what, where=f"{table.name}:1", cure=did_you_mean(name, table.header))
    sample = table.rows[:SAMPLE_LINES]
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
    if all(_number(value) is not None for value in values):
        return "number"
    return "time" if all(read_stamp(str(value)) is not None for value in values) else "text"


def _find_time(kinds: Mapping[str, str], taken: set[Any]) -> str | None:
    times = [name for name, kind in kinds.items() if kind == "time" and name not in taken]
    named = [name for name, kind in kinds.items() if name.lower() in TIME_NAMES and kind == "number" and name not in taken]
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
