"""Reads Python data as records: lists, dicts of columns, pandas and polars frames, Hugging Face data sets.

None of these packages is imported: frames and data sets are recognised by their methods.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from weft.data.badlines import BadLines, at_least_one
from weft.data.example_columns import Columns
from weft.data.records import Pair, Record, Text
from weft.data.sources import PYTHON
from weft.data.texts import BLOCK_CHARACTERS
from weft.data.values import LabelNames, read_example, read_pairs_of, show_value
from weft.errors import DataError, counted

MAX_CHECKED_PATHS = 1000
"""Strings of a list that are checked as paths of files, to tell texts from paths."""


class Objects:
    """Python data that can be read as records several times. `name` is the setting that holds it: data.train."""

    def __init__(self, data: Any, name: str) -> None:
        self.name, self.rows, self.labels = name, _rows_of(data, name), _label_names(data)
        content, self.count = hashlib.sha256(), 0
        for row in self.rows():
            try:
                content.update(json.dumps(row, default=_plain).encode())
            except (RecursionError, TypeError, ValueError) as error:
                what = f"is no plain record: {error}"
                cure = "a record holds texts, numbers, and lists and dicts of them, none inside itself"
                raise DataError(what, where=f"{name}[{self.count}]", cure=cure) from None
            self.count += 1
        self.content = content.hexdigest()[:16]

    def __str__(self) -> str:
        """The text for the data in a configuration: the number of records, and a hash of their content."""
        return f"{PYTHON}{counted(self.count, 'record')}, {self.content}>"

    def read(self, columns: Columns, bad: BadLines) -> Iterator[Record]:
        """Yield the records; a bad one is reported with its number, counted from 0."""
        return at_least_one(self._read(columns, bad), self.name, bad)

    def _read(self, columns: Columns, bad: BadLines) -> Iterator[Record]:
        for number, row in enumerate(self.rows()):
            place = f"{self.name}[{number}]"
            records: Sequence[Record]
            try:
                several = columns.many and columns.record is Pair
                records = (
                    read_pairs_of(row, columns, place) if several else [read_example(row, columns, place, self.labels)]
                )
            except DataError as error:
                bad.report(error)
                continue
            for record in records:
                if columns.joined and isinstance(record, Text):
                    yield from _blocks(record)
                elif isinstance(record, Pair) and not (record.key and record.target):
                    bad.empty += 1
                elif record.key:
                    yield record


def find_objects(data: Any, name: str) -> Objects | None:
    """Wrap Python data; returns None for a path, or a list of strings that all look like paths, or at least half of
    which exist: a text may have the name of some file or folder."""
    if isinstance(data, str | os.PathLike):
        return None
    strings = isinstance(data, list | tuple) and data and all(isinstance(item, str | os.PathLike) for item in data)
    if strings and (all(map(_like_a_path, data)) or _mostly_exist(list(islice(data, MAX_CHECKED_PATHS)))):
        return None
    return Objects(data, name)


def each_row(data: Any, name: str) -> Iterator[Any]:
    """Iterate once over the rows of Python data."""
    return _rows_of(data, name)()


def _rows_of(data: Any, name: str) -> Callable[[], Iterator[Any]]:
    """Return a function that starts a new pass over the rows."""
    if hasattr(data, "iter_rows"):  # polars
        return lambda: data.iter_rows(named=True)
    if hasattr(data, "itertuples"):  # pandas
        names = list(data.columns)
        return lambda: (dict(zip(names, row, strict=True)) for row in data.itertuples(index=False, name=None))
    if isinstance(data, Mapping):
        return _rows_of_columns(data, name)
    if isinstance(data, str | bytes) or not isinstance(data, Iterable):
        cure = "give a path, a list of records, a frame or a data set"
        raise DataError(f"{show_value(data)} is no data", where=name, cure=cure)
    rows = list(data) if isinstance(data, Iterator) else data  # an iterator can be read only once
    return lambda: iter(rows)


def _rows_of_columns(data: Mapping[Any, Any], name: str) -> Callable[[], Iterator[Any]]:
    if any(hasattr(part, "column_names") for part in data.values()):
        cure = f'give one of them, such as DATA["{next(iter(data))}"]'
        raise DataError(f"several data sets: {', '.join(map(str, data))}", where=name, cure=cure)
    if not all(isinstance(part, Iterable) and not isinstance(part, str | bytes) for part in data.values()):
        raise DataError("a dict whose values are no columns", where=name, cure="give a list of records")
    columns = {key: list(part) for key, part in data.items()}
    if len({len(part) for part in columns.values()}) > 1:
        sizes = ", ".join(f"{key} has {len(part):,}" for key, part in columns.items())
        raise DataError(f"columns of different length: {sizes}", where=name, cure="a row has a value of each")
    return lambda: (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))


def _label_names(data: Any) -> LabelNames:
    """The names of labels that a Hugging Face data set stores as numbers."""
    features = getattr(data, "features", None)
    found = {}
    for column, feature in features.items() if isinstance(features, Mapping) else ():
        names = getattr(feature, "names", None) or getattr(getattr(feature, "feature", None), "names", None)
        if names:
            found[column] = tuple(names)
    return found


def _like_a_path(text: str | os.PathLike[str]) -> bool:
    if isinstance(text, os.PathLike):
        return True
    return not any(map(str.isspace, text)) and (text == "-" or "/" in text or Path(text).suffix != "")


def _mostly_exist(paths: Sequence[str | os.PathLike[str]]) -> bool:
    return 2 * sum(map(_exists, paths)) >= len(paths)


def _exists(text: str | os.PathLike[str]) -> bool:
    try:
        return Path(text).exists()
    except (OSError, ValueError):  # too long for a path, or with a NUL
        return False


def _blocks(record: Text) -> Iterator[Text]:
    """Split a running text into blocks that end at a line end, like `read_stream`."""
    text = record.text if record.text.endswith("\n") else f"{record.text}\n"
    start = 0
    while start < len(text):
        end = text.find("\n", start + BLOCK_CHARACTERS - 1) + 1 or len(text)
        yield Text(text[start:end], record.place)
        start = end


def _plain(value: Any) -> Any:
    """Convert a value for JSON: arrays and numbers of other packages to lists and numbers, pictures to a hash of their
    pixels, anything else to text."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return hashlib.sha256(value.tobytes()).hexdigest() if hasattr(value, "tobytes") else str(value)
