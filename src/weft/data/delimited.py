"""Finds the delimiter of a table, and splits its lines into cells.

With tabs and delimiters of several characters, cells are never quoted; with any other delimiter, and in a `.csv`, they
may be, as in RFC 4180.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from weft.data.badlines import BadLines
from weft.errors import DataError

NumberedLines: TypeAlias = Iterable[tuple[int, str]]
NumberedCells: TypeAlias = Iterator[tuple[int, list[str]]]

DELIMITERS: Final = ("\t", ";", "|", ",")
"""Delimiters that are tried if the usual one does not fit, in this order: commas are the most frequent in prose."""

MIN_AGREEMENT = 0.95
"""Share of the first rows that must have the same width before an unusual delimiter is accepted."""

PROSE_FACTOR = 0.9
"""Factor of that share if a blank follows every delimiter, as it follows the commas of a sentence."""


def split_lines(numbered: NumberedLines, delimiter: str, *, quoted: bool, name: str, bad: BadLines) -> NumberedCells:
    """Yield the line number of each row and its cells. Blank lines are skipped."""
    if quoted and len(delimiter) == 1:
        return _split_quoted(numbered, delimiter, name, bad)
    return _split_plain(numbered, delimiter)


def _split_plain(numbered: NumberedLines, delimiter: str) -> NumberedCells:
    for number, line in numbered:
        # A line of tabs only is a row of empty values, not a blank line.
        if line.strip(" "):
            yield number, line.split(delimiter)


def _split_quoted(numbered: NumberedLines, delimiter: str, name: str, bad: BadLines) -> NumberedCells:
    """Split by RFC 4180; a quoted value may span several lines."""
    begin = 0

    def feed() -> Iterator[str]:
        nonlocal begin
        for number, line in numbered:
            begin = begin or number
            yield f"{line}\n"

    rows = csv.reader(feed(), delimiter=delimiter, strict=True)
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


def find_delimiter(sample: NumberedLines, *, usual: str, quoted: bool, names: Collection[str]) -> str:
    """Return the delimiter of the first lines: `usual`, unless another one splits them far more evenly.

    A delimiter with which the first line has all of `names` (in lower case) is chosen at once.
    """
    lines = [line for _, line in sample if line.strip(" ")]
    others = [delimiter for delimiter in DELIMITERS if delimiter != usual]
    tables = {delimiter: _try(lines, delimiter, quoted=quoted or delimiter != "\t") for delimiter in (usual, *others)}
    for delimiter, rows in tables.items():
        if names and rows and {cell.strip().casefold() for cell in rows[0]}.issuperset(names):
            return delimiter
    agreement = {delimiter: _agreement(rows) for delimiter, rows in tables.items()}
    best = max(others, key=lambda delimiter: agreement[delimiter])
    if agreement[best] >= MIN_AGREEMENT > agreement[usual] and len(tables[best]) > 1:
        return best
    return usual


def _try(lines: Sequence[str], delimiter: str, *, quoted: bool) -> list[list[str]]:
    """Split the lines at a delimiter; every bad line after the first is an empty row."""
    skipped = BadLines(skip=True)
    rows = [cells for _, cells in split_lines(enumerate(lines), delimiter, quoted=quoted, name="", bad=skipped)]
    # The sample may end inside a quoted value, so a single error proves nothing.
    return rows + [[]] * (skipped.count - 1)


def _agreement(rows: Sequence[Sequence[str]]) -> float:
    """The share of rows with the most frequent number of cells; 0 if that number is one."""
    if not rows:
        return 0.0
    (width, count), *_ = Counter(map(len, rows)).most_common()
    if width == 1 or len(rows[0]) != width:
        return 0.0
    prose = all(cell.startswith(" ") for row in rows for cell in row[1:])
    return count / len(rows) * (PROSE_FACTOR if prose else 1)
