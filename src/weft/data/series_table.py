"""Reads tables of numbers in time as series: a column per series (wide), or a row per series and time (long).

Columns that the settings do not name are found: the time stamps by their form, the series by the name that repeats its
time stamps, the targets among the columns of numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from weft.data.badlines import BadLines
from weft.data.delimited import find_delimiter, split_lines
from weft.data.objects import Objects
from weft.data.series import Series
from weft.data.series_columns import MISSING, SeriesColumns, SeriesRow, SeriesTable, find_columns, no_number, number_of
from weft.data.series_stamps import has_offset, read_numbers_of_steps, read_stamp, refusal
from weft.data.series_time import Frequency, find_frequency, read_frequency
from weft.data.sources import each_path, lines, suffix
from weft.data.steps import Steps
from weft.errors import DataError, counted

SAMPLE_LINES: Final = 200
"""Lines that are read ahead to find the delimiter, and rows by which columns are recognised."""

MAX_INSERTED: Final = 20
"""Steps that are inserted for each one in the file; more means that the frequency is wrong."""

OTHER_TIME: Final = "name another column: data.time=COLUMN, or none: data.time=false, if rows are in the order of time"
"""The cure for a column of time stamps that cannot be read."""


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
    header = [" ".join(cell.split("\n")).strip() for cell in header]
    if not header:
        raise DataError("is empty", where=name, cure="give a table with a header line")
    twice = next((cell for place, cell in enumerate(header) if cell and cell in header[:place]), None)
    if twice is not None and number_of(twice) is None:
        raise DataError(f'two columns are named "{twice:.40}"', where=f"{name}:{number}", cure="rename one of them")
    if len(set(header)) < len(header) or any(number_of(cell) is not None for cell in header):
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
    numbers = _read_numbers(rows, (*columns.target, *covariates), places, bad)
    texts = [name for name in columns.static if name in (columns.texts or ())]
    static = _read_static(rows, [name for name in columns.static if name not in texts], places, bad)
    categories = tuple((name, _read_category(rows, name, places[name])) for name in texts)
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
            categories=categories,
            columns=(target, columns.time or "", columns.series or ""),
            utc=isinstance(columns.time, str) and has_offset(str(rows[0].cells[places[columns.time]])),
        )


def _in_order(
    name: str, rows: list[SeriesRow], columns: SeriesColumns, places: Mapping[str, int], bad: BadLines
) -> tuple[list[SeriesRow], NDArray[np.int64], Frequency | None]:
    """The rows in the order of their time stamps, these, and their frequency; None without time stamps."""
    if columns.time is None or columns.time is False:
        return rows, np.arange(len(rows)), None
    column = places[columns.time]
    rows, stamps, numbered = _read_stamps(rows, columns.time, column, bad)
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
        if ":" in str(first.cells[column]):
            cure += "; where clocks were set back, write the offset too: 2024-10-27T02:00+01:00"
        raise DataError(what, where=second.place, cure=cure)
    given = columns.frequency
    frequency = find_frequency(stamps, numbered=numbered) if given is None else read_frequency(given)
    _check_regular(rows, stamps, frequency, given or str(frequency), shown, bad)
    return rows, stamps, frequency


def _read_stamps(
    rows: list[SeriesRow], name: str, column: int, bad: BadLines
) -> tuple[list[SeriesRow], NDArray[np.int64], bool]:
    """The rows that have a time stamp, these, and whether they are numbers of steps."""
    texts = [str(row.cells[column]).strip() for row in rows]
    steps = read_numbers_of_steps(texts)
    if steps is not None:
        return rows, np.array(steps[0], dtype=np.int64), steps[1]
    kept, stamps = [], []
    for row, text in zip(rows, texts, strict=True):
        stamp = read_stamp(text)
        if stamp is None:
            cure = f"write it as YYYY-MM-DD, {OTHER_TIME}"
            bad.report(DataError(f'"{name}" is {text!r:.40}, {refusal(text)}', where=row.place, cure=cure))
            continue
        kept.append(row)
        stamps.append(stamp)
    if not kept:
        raise DataError(f'no time stamp in "{name}"', where=rows[0].place, cure=OTHER_TIME)
    return kept, np.array(stamps, dtype=np.int64), False


def _check_regular(
    rows: list[SeriesRow], stamps: NDArray[np.int64], frequency: Frequency, written: str, shown: str, bad: BadLines
) -> None:
    """Raise where a time stamp lies between two steps; note the steps that are missing.

    Messages have the frequency as it is written in the settings.
    """
    at = frequency.positions(int(stamps[0]), stamps)
    found = str(find_frequency(stamps, numbered=frequency.unit == "step"))
    other = found if found != str(frequency) else "h" if found == "D" else "D"
    cure = f'give the distance of two steps, as in data.frequency="{other}", or mend the file'
    if at[-1] > MAX_INSERTED * len(rows) + 1000:
        what = f"the time stamps{shown} span {counted(int(at[-1]) + 1, 'step')} of {written} in {len(rows):,} rows"
        raise DataError(what, where=rows[0].place, cure=cure)
    # Months differ in length: there a stamp may be any day, as long as each month has one.
    exact = frequency.stamps(int(stamps[0]), 0, int(at[-1]) + 1)[at]
    between = np.diff(at) == 0 if frequency.unit in ("M", "Y", "B") else exact[1:] != stamps[1:]
    if between.any():
        what = f"the time stamps{shown} are irregular: this one is no multiple of {written} after the first"
        raise DataError(what, where=rows[int(between.argmax()) + 1].place, cure=cure)
    gaps = np.flatnonzero(np.diff(at) > 1)
    if len(gaps):
        missing = int(at[-1]) + 1 - len(rows)
        what = f"{counted(missing, 'step')}{shown} of {written} {'is' if missing == 1 else 'are'} not in the file"
        bad.note(f"{what}, the first before {rows[gaps[0] + 1].place}: read as missing")


def _read_numbers(
    rows: list[SeriesRow], names: Sequence[str], places: Mapping[str, int], bad: BadLines
) -> NDArray[np.float64]:
    """The numbers of all rows (N, C), NaN where they are missing, or bad and skipped."""
    found = np.full((len(rows), len(names)), np.nan)
    for column, name in enumerate(names):
        place = places[name]
        for number, row in enumerate(rows):
            value = number_of(row.cells[place])
            if value is None:
                bad.report(no_number(name, row.cells[place], row.place))
            else:
                found[number, column] = value
    return found


def _read_static(
    rows: list[SeriesRow], names: Sequence[str], places: Mapping[str, int], bad: BadLines
) -> tuple[float, ...]:
    numbers = _read_numbers(rows, names, places, bad)
    for column, name in enumerate(names):
        first = numbers[0, column]
        other = np.flatnonzero(~(numbers[:, column] == first))
        if np.isnan(first):
            cure = "write a number, or leave the column out of data.static"
            raise DataError(f'"{name}" is missing', where=rows[0].place, cure=cure)
        if len(other):
            raise _changes(name, f"{first:g}", f"{numbers[other[0], column]:g}", rows[other[0]].place)
    return tuple(numbers[0].tolist())


def _read_category(rows: list[SeriesRow], name: str, place: int) -> str:
    """The text that all rows of a series have; empty where it is missing."""
    first, *rest = (str(row.cells[place]).strip() for row in rows)
    for row, text in zip(rows[1:], rest, strict=True):
        if text != first:
            raise _changes(name, repr(first), repr(text), row.place)
    return "" if first.lower() in MISSING else first


def _changes(name: str, first: str, other: str, place: str) -> DataError:
    what = f'"{name}" changes within a series, from {first:.40} to {other:.40}'
    cure = "a static feature is one number or text for a whole series; give others as data.past or data.known"
    return DataError(what, where=place, cure=cure)
