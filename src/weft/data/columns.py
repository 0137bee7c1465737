"""Finds the columns of a file that the settings name; an error lists the columns that exist.

A setting is the name of a column in the header, a path into a JSON object, a column number from 0, or a list of those
to be joined with a blank. A setting equal to its own name (`text = "text"`) is at its default: in a file without a
header such columns are expected in the order of the settings.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from weft.data.delimited import DELIMITERS
from weft.data.headers import guess_columns, label_comes_first, looks_like_header
from weft.errors import DataError

Column: TypeAlias = str | int | list[str | int]
"""The value of a setting: a name or a path, a number from 0, or several of them."""

Key: TypeAlias = int | str
"""The position of a column in a row, or its path in an object."""

OVERRIDE = "data.{setting}={column}"
"""The option that chooses a column on the command line."""

_PLAIN_NAME = re.compile(r"[^\W\d][\w .-]*")
_SHOWN_COLUMNS, _SHOWN_CHARACTERS = 12, 24


@dataclass(frozen=True)
class Wanted:
    """The settings that name columns, in the order expected of a file without a header."""

    columns: Mapping[str, Column]
    needed: Collection[str]
    """The settings whose columns a file must have."""
    override: str = OVERRIDE

    def parts(self, setting: str) -> list[str | int]:
        column = self.columns[setting]
        return column if isinstance(column, list) else [column]

    def is_default(self, setting: str) -> bool:
        return self.columns[setting] == setting

    @property
    def names(self) -> set[str]:
        """The names in lower case that a header must have."""
        return self._names(self.needed)

    @property
    def optional_names(self) -> set[str]:
        """Names in lower case that a header may have."""
        return self._names(self.columns)

    def _names(self, settings: Iterable[str]) -> set[str]:
        parts = (part for setting in settings for part in self.parts(setting))
        return {part.casefold() for part in parts if isinstance(part, str)}

    def choose(self, setting: str, column: object) -> str:
        """The option of a command that chooses a column."""
        return self.override.format(setting=setting, column=shlex.quote(str(column)))

    def advise(self, names: Sequence[str] | None, rows: Sequence[Sequence[str]], *, numbered: bool = True) -> str:
        """The cure of an error: the columns of the file, each with a value, and the choice that is probably right.

        Columns that are not `numbered` can only be chosen by name.
        """
        width = len(names) if names is not None else max(map(len, rows), default=0)
        whole = [row for row in rows if len(row) == width]
        chosen = self._among(names, width)
        missing = [setting for setting in self.columns if setting in self.needed and setting not in chosen]
        guessed = guess_columns(names, whole, missing, {place for places in chosen.values() for place in places})
        choices = " ".join(
            self.choose(setting, guessed[setting] if names is None else _call(guessed[setting], names, numbered))
            for setting in missing
            if setting in guessed
        )
        listed = list_columns(names or range(width), whole[0] if whole else [])
        return f"its columns are: {listed}" + f"; choose with: {choices}" * bool(choices)

    def _among(self, names: Sequence[str] | None, width: int) -> dict[str, list[int]]:
        """Return the settings whose columns all exist, with their positions."""
        places: dict[str | int, int] = {place: place for place in range(width)}
        places |= {name.strip().casefold(): place for place, name in enumerate(names or ())}
        found = {}
        for setting in self.columns:
            parts = [part.casefold() if isinstance(part, str) else part for part in self.parts(setting)]
            if all(part in places for part in parts):
                found[setting] = [places[part] for part in parts]
        return found


def list_columns(heads: Iterable[object], example: Sequence[str]) -> str:
    """List the names or numbers of columns, each with its value in an example."""
    shown = [_cut(str(head)) for head in heads]
    for place, cell in enumerate(example):
        shown[place] += f' "{_cut(cell)}"' * bool(cell.strip())
    more = len(shown) - _SHOWN_COLUMNS
    return ", ".join(shown[:_SHOWN_COLUMNS]) + f" and {more} more" * (more > 0)


def _call(place: int, names: Sequence[str], numbered: bool) -> str | int:
    """Return a column's name if it is unambiguous on a command line, else its number."""
    name = names[place].strip()
    alike = [one for one in names if one.strip().casefold() == name.casefold()]
    plain = len(alike) == 1 and _PLAIN_NAME.fullmatch(name) and name not in ("true", "false")
    return name if plain or not numbered else place


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 1]}…"


@dataclass(frozen=True)
class Finder:
    """Finds the wanted columns in one file, given its first `rows`; `place` is the file and line of the first."""

    wanted: Wanted
    rows: Sequence[list[str]]
    place: str

    def header(self) -> list[str] | None:
        """Return the first row if it is a header."""
        first, *others = self.rows
        present = {cell.strip().casefold() for cell in first}
        wanted = self.wanted
        by_name = [
            setting
            for setting in wanted.needed
            if not wanted.is_default(setting) and any(isinstance(part, str) for part in wanted.parts(setting))
        ]
        if len(wanted.columns) > 1 and set(wanted.columns) <= present:  # even if columns are chosen by number
            return first
        # Some of the names without the others, or chosen names, mean a header; missing ones are an error later.
        if by_name or wanted.names & present or (len(first) > 1 and wanted.optional_names & present):
            return first
        if not looks_like_header(first, [row for row in others if len(row) == len(first)]):
            return None
        if wanted.names:
            missing = " and ".join(f'"{setting}"' for setting in wanted.columns if setting in wanted.names)
            example = "; if it is an example: data.header=false" * (wanted.override == OVERRIDE)
            raise self.error(f"looks like a header without {missing}", first, example)
        return first

    def width(self, header: list[str] | None) -> int:
        """The number of cells that every row must have."""
        if header is not None:
            return len(header)
        (usual, count), *_ = Counter(map(len, self.rows)).most_common()
        return usual if 2 * count > len(self.rows) else len(self.rows[0])

    def keys(self, header: list[str] | None, width: int) -> dict[str, tuple[Key, ...]]:
        """Return the positions of the columns of each setting; a setting that is not needed may be missing."""
        found: dict[str, tuple[Key, ...]] = {}
        for setting in self.wanted.columns:
            if header is None and self.wanted.is_default(setting):
                continue
            positions = [self._position(part, header, width) for part in self.wanted.parts(setting)]
            if all(position is not None for position in positions):
                found[setting] = tuple(position for position in positions if position is not None)
            elif setting in self.wanted.needed:
                raise self._missing(setting, header, width)
        found = found if header is not None else found | self._in_order(found, width)
        if len(found) > 1 and len(set(found.values())) == 1:
            raise self.error(f"{' and '.join(found)} are the same column", header)
        return found

    def _position(self, part: str | int, header: list[str] | None, width: int) -> int | None:
        if isinstance(part, int):
            return part if part < width else None
        if header is None:
            return None
        cells = [cell.strip() for cell in header]
        if cells.count(part.strip()) == 1:
            return cells.index(part.strip())
        folded = [cell.casefold() for cell in cells]
        if folded.count(part.strip().casefold()) > 1:
            cure = "rename one of them in the file, or count the columns from 0"
            raise self.error(f'two columns "{part}" in the header', header, f"; {cure}")
        return folded.index(part.strip().casefold()) if part.strip().casefold() in folded else None

    def _in_order(self, chosen: Mapping[str, tuple[Key, ...]], width: int) -> dict[str, tuple[Key, ...]]:
        """Assign the remaining columns, in order, to the settings at their defaults; raises if there are too many."""
        open_settings = [setting for setting in self.wanted.columns if self.wanted.is_default(setting)]
        needed = [setting for setting in open_settings if setting in self.wanted.needed]
        left = [place for place in range(width) if all(place not in keys for keys in chosen.values())]
        if not needed:
            return {}
        if not len(needed) <= len(left) <= len(open_settings):
            total = len(self.wanted.columns)
            what = f"{width} column{'s' * (width != 1)} where {total} are expected"
            if width == 1:
                raise DataError(what, where=self.place, cure=self._suggest_delimiter())
            raise self.error(what, None)
        labelled = not chosen and needed == ["text", "label"]
        if labelled and label_comes_first([row for row in self.rows if len(row) == width]):
            order = f"{self.wanted.choose('text', 0)} {self.wanted.choose('label', 1)}"
            raise self.error("the label seems to come first", None, f"; if it does not: {order}")
        # If some are missing, the needed ones exist.
        names = open_settings if len(left) == len(open_settings) else needed
        return {setting: (place,) for setting, place in zip(names, left, strict=False)}

    def _suggest_delimiter(self) -> str:
        """The cure for a line without the expected delimiter: the line, and a delimiter that it contains."""
        line = self.rows[0][0]
        near = next((one for one in DELIMITERS if one in line), None)
        cure = f'the line is "{_cut(line)}"; choose what separates its columns: '
        cure += f"data.delimiter={shlex.quote(near) if near else '…'}"
        if "target" in self.wanted.columns:
            cure += """; of two parallel files give both: data.train='["SOURCE","TARGET"]'"""
        return cure

    def _missing(self, setting: str, header: list[str] | None, width: int) -> DataError:
        missing = next(part for part in self.wanted.parts(setting) if self._position(part, header, width) is None)
        chosen = self.wanted.override == OVERRIDE and not self.wanted.is_default(setting)
        named = f" for data.{setting}" if chosen else ""
        if isinstance(missing, int):
            what = f"no column {missing} among {width}, counted from 0{named}"
        elif header is None:
            what = f'no header to find "{missing}" in, as data.header = false'
        else:
            what = f'no column "{missing}" in the header{named}'
        return self.error(what, header)

    def error(self, what: str, header: list[str] | None, more: str = "") -> DataError:
        """Build an error with the columns found and the choice that is probably right."""
        width, rows = self.width(header), self.rows if header is None else self.rows[1:]
        rows = [row for row in rows if len(row) == width] or rows
        return DataError(what, where=self.place, cure=self.wanted.advise(header, rows) + more)
