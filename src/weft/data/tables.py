"""Tables: the rows of a TSV, CSV or JSON file with their lines, and the texts in the columns that settings name.

The first line of a TSV or CSV is a header if it has all wanted names, in upper or lower case. A first line that looks
like a header with other names is an error, because as an example it would add a class of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from weft.data.badlines import BadLines
from weft.data.columns import OVERRIDE, Column, Finder, Key, Wanted
from weft.data.delimited import NumberedCells, find_delimiter, split_lines
from weft.data.jsonrows import Object, leaves, look_up, no_targets, reaches, read_objects, spell
from weft.data.parquet import read_parquet
from weft.data.sources import lines, suffix
from weft.errors import DataError

Format: TypeAlias = Literal["tsv", "csv", "jsonl", "json", "parquet"]

SUFFIXES: Final[dict[str, Format]] = {
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".parquet": "parquet",
}
"""Formats by the suffix of a file; every other is TSV."""

SAMPLE_ROWS, SAMPLE_CHARACTERS = 200, 1 << 20
"""The part of a file that is read ahead to find delimiter and header."""

DELIMITER_NAMES: Final = {"\t": "tabs", ";": "semicolons", "|": "bars", ",": "commas"}


class Layout(NamedTuple):
    """The format of a file; parts that are None are detected."""

    format: Format | None = None
    delimiter: str | None = None
    header: bool | None = None

    def kind_of(self, name: str) -> Format:
        """The format of a file: the one that is set, or that of its suffix."""
        return self.format or SUFFIXES.get(suffix(name), "tsv")


LAYOUT: Final = Layout()
"""The default layout: all parts are detected."""


class Row(NamedTuple):
    """One row as it is in the file: a list of cells, or a JSON object."""

    place: str
    cells: list[str] | Object


@dataclass
class Table:
    """One pass over the rows of a file."""

    name: str
    format: Format
    columns: list[str] | None
    """The names of the header; None without a header, and for JSON."""
    delimiter: str | None
    """None for JSON."""
    rows: Iterator[Row] = field(repr=False)
    keys: dict[str, tuple[Key, ...]]
    """The positions of the columns of each setting; a setting without a column is missing."""
    wanted: Wanted

    def __iter__(self) -> Iterator[Row]:
        return self.rows

    def has(self, setting: str) -> bool:
        """Whether the file has the column of a setting."""
        return setting in self.keys

    def text(self, setting: str, row: Row) -> str:
        """Return the text of a row in the column of a setting, stripped; several columns are joined with a blank."""
        keys, cells = self.keys[setting], row.cells
        if isinstance(cells, list):
            found = [cells[key].strip() for key in keys if isinstance(key, int)]
        else:
            found = [self._value(cells, str(key), row.place, joined=len(keys) > 1) for key in keys]
        return found[0] if len(found) == 1 else " ".join(part for part in found if part)

    def value(self, setting: str, row: Row) -> Any:
        """Return the value of a row in the column of a setting: of a JSON object as it is, else its text."""
        (key, *others), cells = self.keys[setting], row.cells
        if isinstance(cells, list) or others:
            return self.text(setting, row)
        return self.look_up(row, str(key))

    def values(self, setting: str, row: Row) -> list[str]:
        """Return the texts of a row in all columns of a setting, stripped, without empty ones; a value of a JSON object
        may be a list of texts."""
        keys, cells = self.keys[setting], row.cells
        if isinstance(cells, list):
            found = [cells[key].strip() for key in keys if isinstance(key, int)]
        else:
            found = [text for key in keys for text in self._listed(cells, str(key), row.place, joined=len(keys) > 1)]
        return [text for text in found if text]

    def _listed(self, cells: Object, path: str, place: str, *, joined: bool) -> list[str]:
        value = look_up(cells, path) if reaches(cells, path) else None
        if value == [] and not joined:
            raise no_targets(path, place)
        if isinstance(value, list):
            return [spell(text, path, place) for text in value]
        return [] if value is None and joined else [self._value(cells, path, place, joined=joined)]

    def texts(self, first: str, second: str, bad: BadLines) -> Iterator[tuple[str, str, str]]:
        """Yield the texts of two settings in each row, as `text` returns them, and the row's place."""
        (left, *more), (right, *others) = self.keys.get(first, (0,)), self.keys.get(second, (0,))
        if isinstance(left, int) and isinstance(right, int) and not more and not others:
            # The usual case, and the fastest: two plain columns, in which no error can occur.
            for place, cells in self.rows:
                yield cells[left].strip(), cells[right].strip(), place  # type: ignore[index]
            return
        for row in self.rows:
            try:
                found = self.text(first, row), self.text(second, row), row.place
            except DataError as error:
                bad.report(error)
                continue
            yield found

    def _value(self, cells: Object, path: str, place: str, *, joined: bool) -> str:
        value = self.look_up(Row(place, cells), path)
        return "" if joined and value is None else spell(value, path, place)

    def look_up(self, row: Row, path: str) -> Any:
        """Return the value at a path of a JSON object."""
        cells, place = row.cells, row.place
        assert isinstance(cells, dict)
        try:
            return look_up(cells, path)
        except KeyError:
            known = {name: str(value) for name, value in leaves(cells)}
            cure = "the object has no texts"
            if known:
                cure = self.wanted.advise(list(known), [list(known.values())], numbered=False)
            raise DataError(f'no "{path}" in the object', where=place, cure=cure) from None


def read_table(
    name: str,
    columns: Mapping[str, Column],
    *,
    needed: Collection[str] | None = None,
    layout: Layout = LAYOUT,
    override: str = OVERRIDE,
    bad: BadLines,
) -> Table:
    """Open a table and find the columns that settings name: `{"text": data.text, "label": data.label}`.

    Columns that are not `needed` may be missing; by default all are needed. A bad row is reported to `bad`. Files other
    than JSON are read up to `SAMPLE_ROWS` rows ahead, unless the layout has both delimiter and header. `override` is
    the option that messages suggest for choosing a column.
    """
    wanted = Wanted(columns, set(columns if needed is None else needed), override)
    kind = layout.kind_of(name)
    if kind in ("json", "jsonl", "parquet"):
        return _open_objects(name, kind, wanted, bad)
    numbered, delimiter = lines(name, bad), layout.delimiter
    if delimiter is None:
        head = list(_ahead(numbered))
        usual = "," if kind == "csv" else "\t"
        delimiter = find_delimiter(head, usual=usual, quoted=kind == "csv", names=wanted.names)
        numbered = chain(head, numbered)
        if delimiter != usual:
            bad.note(f"{name}: columns are separated by {DELIMITER_NAMES[delimiter]}")
    cells = split_lines(numbered, delimiter, quoted=kind == "csv" or delimiter != "\t", name=name, bad=bad)
    sample = list(islice(cells, 2 if layout.delimiter is not None and layout.header is not None else SAMPLE_ROWS))
    if not sample:
        return Table(name, kind, None, delimiter, iter(()), {}, wanted)
    finder = Finder(wanted, [row for _, row in sample], f"{name}:{sample[0][0]}")
    header = finder.header() if layout.header is None else sample[0][1] if layout.header else None
    width = finder.width(header)
    keys = finder.keys(header, width)
    if header is not None:
        del sample[0]
        if layout.header is None and not wanted.names:
            shown = ", ".join(cell.strip() for cell in header[:12])
            bad.note(f"{name}: the first line is taken for a header: {shown} (data.header=false makes it an example)")
    rows = _even_rows(name, chain(sample, cells), finder, header, width, bad)
    return Table(name, kind, header, delimiter, rows, keys, wanted)


def _ahead(numbered: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Yield the first lines, up to `SAMPLE_ROWS` or about `SAMPLE_CHARACTERS`."""
    characters = 0
    for number, line in islice(numbered, SAMPLE_ROWS):
        yield number, line
        characters += len(line)
        if characters > SAMPLE_CHARACTERS:
            return


def _even_rows(
    name: str, cells: NumberedCells, finder: Finder, header: list[str] | None, width: int, bad: BadLines
) -> Iterator[Row]:
    """Yield the rows of the right width; others are reported."""
    for number, row in cells:
        if len(row) == width:
            yield Row(f"{name}:{number}", row)
        else:
            bad.report(_wrong_width(row, width, finder.wanted, f"{name}:{number}", named=header is not None))


def _wrong_width(cells: list[str], width: int, wanted: Wanted, place: str, *, named: bool) -> DataError:
    found = f"{len(cells)} column{'s' * (len(cells) != 1)}"
    if width == 2:
        cure = (
            f"a row is {' and '.join(wanted.columns)} with one tab between them, in a .csv one comma; "
            "a file with more columns begins with a header line"
        )
        return DataError(f"{found} where 2 are expected", where=place, cure=cure)
    cure = "a TSV is never quoted, so a text in it can have no tab; a CSV quotes a text that has a comma"
    return DataError(f"{found} where the {'header has' if named else 'others have'} {width}", where=place, cure=cure)


def _open_objects(name: str, kind: Format, wanted: Wanted, bad: BadLines) -> Table:
    objects = (
        Row(f"{name}:{number}", value)
        for number, value in (read_parquet(name) if kind == "parquet" else read_objects(name, bad))
    )
    first = next(objects, None)
    keys = find_keys(name, None if first is None else first.cells, wanted)
    return Table(name, kind, None, None, objects if first is None else chain([first], objects), keys, wanted)


def find_keys(name: str, first: Any, wanted: Wanted) -> dict[str, tuple[Key, ...]]:
    """Find the paths of each setting in the objects of a file, given its first; None where it has no rows."""
    keys: dict[str, tuple[Key, ...]] = {}
    for setting in wanted.columns:
        parts = wanted.parts(setting)
        number = next((part for part in parts if isinstance(part, int)), None)
        if number is not None:
            what = f"{wanted.choose(setting, number)} counts columns, and JSON has names"
            raise DataError(what, where=name, cure="name a key, or a path such as review.body")
        if setting in wanted.needed or (first is not None and all(reaches(first, str(part)) for part in parts)):
            keys[setting] = tuple(parts)
    return keys
