"""Two named values per row, from TSV, CSV or JSONL.

The first line of a TSV or CSV is a header if it has both names; upper and lower case are the same there. Without a
header there are exactly two columns, in the order of the names.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

from weft.data.badlines import BadLines
from weft.data.sources import lines, suffix
from weft.errors import DataError, did_you_mean

Names: TypeAlias = tuple[str, str]

SETTINGS: Final = ("source", "target", "text", "label")
"""Settings under `data` that name a column, and what they say by default."""


class Row(NamedTuple):
    """The two values of a row, without the blanks at their ends."""

    first: str
    second: str
    place: str


def read_rows(name: str, names: Names, *, header: bool, bad: BadLines) -> Iterator[Row]:
    """The rows of a table in the format of its suffix: CSV, JSONL, and TSV for every other. Blank lines are skipped.

    `header` says that a TSV or CSV must have one: whoever names a column expects it to be looked up.
    """
    match suffix(name):
        case ".csv":
            return _select(_split_commas(name, bad), name, names, header=header, bad=bad)
        case ".jsonl" | ".ndjson" | ".json":
            return _read_objects(name, names, bad)
    return _select(_split_tabs(name, bad), name, names, header=header, bad=bad)


def _select(
    table: Iterator[tuple[int, list[str]]], name: str, names: Names, *, header: bool, bad: BadLines
) -> Iterator[Row]:
    """The two columns of a table whose first row may be a header."""
    positions: tuple[int, int] | None = None
    width = 2
    for number, cells in table:
        place = f"{name}:{number}"
        if positions is None:
            found = _find_columns(cells, names, header=header, place=place)
            positions = found or (0, 1)
            if found:
                width = len(cells)
                continue
        if len(cells) != width:
            bad.report(_wrong_width(cells, width, names, place))
            continue
        first, second = positions
        yield Row(cells[first].strip(), cells[second].strip(), place)


def _find_columns(cells: list[str], names: Names, *, header: bool, place: str) -> tuple[int, int] | None:
    """Where the two columns stand, if the first row is a header."""
    columns = [cell.strip().casefold() for cell in cells]
    counts = [columns.count(name.casefold()) for name in names]
    if not any(counts) and not header:
        return None
    for name, count in zip(names, counts, strict=True):
        if count != 1:
            what = f'no column "{name}" in the header' if count == 0 else f'two columns "{name}" in the header'
            others = [cell.strip()[:40] for cell in cells[:20] if cell.strip().casefold() not in names]
            shown = ", ".join(cell.strip()[:40] for cell in cells[:20])
            cure = f"its columns are: {shown}; a file without a header has {' and '.join(names)} in this order"
            if count == 0 and name in SETTINGS and others:
                cure = f"its columns are: {shown}; say which is meant, as in data.{name}={others[0]}"
            raise DataError(what, where=place, cure=cure)
    first, second = (columns.index(name.casefold()) for name in names)
    return first, second


def _wrong_width(cells: list[str], width: int, names: Names, place: str) -> DataError:
    found = f"{len(cells)} column{'s' * (len(cells) != 1)}"
    if width == 2:
        cure = (
            f"a row is {names[0]} and {names[1]} with one tab between them, in a .csv one comma; "
            "a file with more columns begins with a header line"
        )
        return DataError(f"{found} where 2 are expected", where=place, cure=cure)
    cure = "a TSV is never quoted, so a text in it can have no tab; a CSV quotes a text that has a comma"
    return DataError(f"{found} where the header has {width}", where=place, cure=cure)


def _split_tabs(name: str, bad: BadLines) -> Iterator[tuple[int, list[str]]]:
    for number, line in lines(name, bad):
        # A line of tabs only is a row of empty values, not a blank line.
        if line.strip(" "):
            yield number, line.split("\t")


def _split_commas(name: str, bad: BadLines) -> Iterator[tuple[int, list[str]]]:
    """Rows of RFC 4180 with the number of the line they begin on; a quoted value may run over several lines."""
    begin = 0

    def feed() -> Iterator[str]:
        nonlocal begin
        for number, line in lines(name, bad):
            begin = begin or number
            yield f"{line}\n"

    rows = csv.reader(feed(), strict=True)
    while True:
        begin = 0
        try:
            cells = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            cure = 'quote a value as "…" and double each " inside it; is a quote never closed?'
            if "field limit" in str(error):
                cure += " longer values need TSV or JSONL"
            bad.report(DataError(f"not CSV: {error}", where=f"{name}:{begin}", cure=cure))
            continue
        if cells:
            yield begin, cells


def _read_objects(name: str, names: Names, bad: BadLines) -> Iterator[Row]:
    for number, line in lines(name, bad):
        if not line.strip():
            continue
        place = f"{name}:{number}"
        try:
            first, second = _read_object(line, names, place)
        except DataError as error:
            bad.report(error)
            continue
        yield Row(first, second, place)


def _read_object(line: str, names: Names, place: str) -> tuple[str, str]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"not JSON: {error}", where=place, cure="write one object per line") from None
    if not isinstance(value, dict):
        example = f'{{"{names[0]}": "…", "{names[1]}": "…"}}'
        raise DataError("not a JSON object", where=place, cure=f"write one object per line, such as {example}")
    for name in names:
        if name not in value:
            raise DataError(f'no "{name}" in the object', where=place, cure=did_you_mean(name, value))
    return _spell(value[names[0]], names[0], place), _spell(value[names[1]], names[1], place)


def _spell(value: object, name: str, place: str) -> str:
    """A string as it is; numbers, true and false as JSON spells them."""
    if not isinstance(value, str | bool | int | float):
        raise DataError(f'"{name}" is {json.dumps(value)[:40]}, not a text', where=place, cure='write it as "…"')
    text = value if isinstance(value, str) else json.dumps(value)
    # JSON can spell half of a surrogate pair, which is no character and breaks every encoder further on.
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise DataError(f'"{name}" has half of a surrogate pair', where=place, cure="write the character as UTF-8")
    return text.strip()
