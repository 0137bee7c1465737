"""Finds the columns of a table of series: time stamps by their form, names by what they tell apart, numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, Literal, NamedTuple

from weft.data.series_stamps import is_compact_date, looks_like_stamp, read_stamp
from weft.data.steps import MAX_NUMBER
from weft.errors import ConfigError, DataError, did_you_mean

MISSING: Final = frozenset(("", "na", "n/a", "nan", "null", "none", "-"))
"""Cells without a number, in lower case."""

SAMPLE_ROWS: Final = 200
"""Rows by which columns are recognised."""

SERIES_NAMES: Final = ("series", "series_id", "unique_id", "item_id", "id", "name")
TARGET_NAMES: Final = ("value", "target", "y")
TIME_NAMES: Final = (
    "time", "date", "datetime", "timestamp", "ts", "ds", "month", "day", "week", "year", "period", "step",
)  # fmt: skip
"""The usual names of columns, in lower case."""

MIN_COUNTED: Final = 4
"""Rows from which on a column that rises by one step is a count, and no measurement."""

MOSTLY: Final = 0.9
"""The share of rows that names tell apart, from which on they are those of series in a table with some rows twice."""

DECIMAL_COMMA: Final = re.compile(r"[-+]?\d+(?:\.\d{3})*,\d+")

OTHER_NUMBER: Final = re.compile(
    r"(?!\d+$)[-+\u2212]?\d{1,3}(?:(?:[,'_\u2019 \u00a0\u2009\u202f]\d{3})+|\d*)(?:\.\d+)?"
)
"""A number with a minus sign of typography, or with marks between thousands."""

TYPOGRAPHY: Final = str.maketrans({"\u2212": "-"} | dict.fromkeys(",'_\u2019 \u00a0\u2009\u202f"))
"""Replaces those by what a number may have."""


class SeriesColumns(NamedTuple):
    """The columns of a table, as far as they are known."""

    target: tuple[str, ...] = ()
    time: str | Literal[False] | None = None
    """The column of time stamps; False for none, None where it is found by its cells."""
    series: str | None = None
    static: tuple[str, ...] = ()
    past: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    frequency: str | None = None
    texts: tuple[str, ...] | None = None
    """The columns of `static` that hold texts; None where they are found by their cells."""


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
    del settings["frequency"], settings["texts"]
    for setting, value in settings.items():
        for name in (value,) if isinstance(value, str) else value or ():
            if name not in table.header:
                what = f'no column "{name}" for data.{setting}'
                raise DataError(what, where=f"{table.name}:1", cure=did_you_mean(name, table.header))
    sample = table.rows[:SAMPLE_ROWS]
    kinds = {name: _kind([row.cells[number] for row in sample]) for number, name in enumerate(table.header)}
    taken = {*wanted.target, *wanted.static, *wanted.past, *wanted.known, wanted.series} - {None}
    usual = _find_time(kinds, taken)
    time = None if wanted.time is False else wanted.time or usual
    # A column that would be found is ignored where the table is said to have none.
    taken |= {usual if wanted.time is False else time}
    series = wanted.series or _find_series(table, kinds, taken, time)
    target = wanted.target or _find_target(table, kinds, {*taken, series}, long=series is not None)
    twice = [name for name in target if name in (*wanted.past, *wanted.known, *wanted.static, time, series)]
    if twice:
        raise ConfigError("is a target too", where=f'column "{twice[0]}" in [data]', cure="name it once")
    texts = wanted.texts
    if texts is None:
        cells = {name: [row.cells[table.header.index(name)] for row in table.rows] for name in wanted.static}
        texts = tuple(name for name in wanted.static if _kind(cells[name]) in ("text", "time"))
    return wanted._replace(target=tuple(target), time=time, series=series, texts=texts)


def _kind(cells: Iterable[Any]) -> str:
    """number, time, text, or empty for a column without a value, by most of its cells: readers report the others."""
    values = [cell for cell in cells if str(cell).strip().lower() not in MISSING]
    if not values:
        return "empty"
    if all(is_compact_date(str(value)) for value in values):
        return "time"
    if 2 * sum(looks_like_number(value) for value in values) > len(values):
        return "number"
    dates = sum(looks_like_stamp(str(value)) or read_stamp(str(value)) is not None for value in values)
    return "time" if 2 * dates > len(values) else "text"


def _find_time(kinds: Mapping[str, str], taken: set[Any]) -> str | None:
    """The column of dates, a usual name first; else the column with a usual name, of numbers first."""
    free = [name for name in kinds if name not in taken]
    named = [name for name in free if name.lower() in TIME_NAMES]
    dates = [[name for name in names if kinds[name] == "time"] for names in (named, free)]
    others = [[name for name in named if kinds[name] == kind] for kind in ("number", "text")]
    return next((name for names in (*dates, *others) for name in names), None)


def _find_series(table: SeriesTable, kinds: Mapping[str, str], taken: set[Any], time: str | None) -> str | None:
    """The column of texts in which all rows with equal time stamps differ, or most, or that has a usual name."""
    free = [name for name in table.header if name not in taken and kinds[name] in ("text", "number")]
    if time is None:
        return next((name for name in free if name.lower() in SERIES_NAMES), None)
    place = table.header.index(time)
    stamps = [str(row.cells[place]) for row in table.rows]
    if len(set(stamps)) == len(stamps):
        return None
    free.sort(key=lambda name: (kinds[name] != "text", name.lower() not in SERIES_NAMES))
    told = len(set(stamps))
    found: str | None = None
    for name in free:
        if kinds[name] == "number" and name.lower() not in SERIES_NAMES:
            continue
        column = table.header.index(name)
        names = [str(row.cells[column]).strip() for row in table.rows]
        if 2 * len(set(names)) > len(names):
            continue  # a remark in each row
        apart = len(set(zip(names, stamps, strict=True)))
        if apart == len(stamps):
            return name
        if apart > max(told, MOSTLY * len(stamps)):  # a row that is there twice is named with its series
            told, found = apart, name
    return found


def _find_target(table: SeriesTable, kinds: Mapping[str, str], taken: set[Any], *, long: bool) -> list[str]:
    numbers = [name for name in table.header if name not in taken and kinds[name] == "number"]
    free = [name for name in numbers if not _is_count(table, name)] or numbers
    usual = [name for name in free if name.lower() in TARGET_NAMES]
    if long and len(free) > 1:
        free = usual[:1]
    if not free:
        empty = next((name for name in table.header if name not in taken and kinds[name] == "empty"), None)
        if empty is not None:
            what = f'all values of "{empty}" are missing, and no other column of numbers could be the target'
            raise DataError(what, where=f"{table.name}:1", cure="write numbers into it")
        cure = f"name the column to forecast: data.target=COLUMN; there are {', '.join(table.header)}"
        raise DataError("no column of numbers that could be the target", where=f"{table.name}:1", cure=cure)
    return free


def _is_count(table: SeriesTable, name: str) -> bool:
    """Whether a column numbers the rows, or has a usual name of time: it is nothing to forecast."""
    if name.lower() in TIME_NAMES:
        return True
    place = table.header.index(name)
    numbers = [number_of(row.cells[place]) for row in table.rows[:SAMPLE_ROWS]]
    if len(numbers) < MIN_COUNTED or None in numbers:
        return False
    gaps = {after - before for before, after in pairwise(number for number in numbers if number is not None)}
    return len(gaps) == 1 and gaps.pop() > 0


def looks_like_number(value: Any) -> bool:
    """Whether a cell is written as a number, also one that cannot be read: infinite, too large, with a comma."""
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        text = str(value).strip()
        return DECIMAL_COMMA.fullmatch(text) is not None or OTHER_NUMBER.fullmatch(text) is not None
    return not isinstance(value, bool)


def number_of(value: Any) -> float | None:
    """The number of a cell, NaN for a missing one, None for anything else."""
    if isinstance(value, str):
        text = value.strip()
        if text.lower() in MISSING:
            return math.nan
        if "_" in text:  # float() would read 1_000
            return None
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


def no_number(name: str, value: Any, place: str) -> DataError:
    """The error of a cell that is no number."""
    text = str(value).strip()
    cure = f"write a number such as 2.5, leave the cell empty where it is missing, or choose data.target without {name}"
    what = f'"{name}" is {value!r:.40}, not a number'
    if DECIMAL_COMMA.fullmatch(text):
        what += ": it has a comma"
        whole, _, rest = text.replace(".", "").rpartition(",")
        cure = f"write it as {whole}.{rest}" + (f" or {whole}{rest}" if len(rest) == 3 else "")
    elif OTHER_NUMBER.fullmatch(text) and math.isfinite(plain := float(text.translate(TYPOGRAPHY))):
        sign = "a minus sign of typography" if "\u2212" in text else "marks between thousands"
        what += f": it has {sign}"
        cure = f"write it as {plain:.15g}"
    elif looks_like_number(value):
        what, cure = f'"{name}" is {value!r:.40}', f"write a number between ±{MAX_NUMBER:g}, or leave the cell empty"
    return DataError(what, where=place, cure=cure)
