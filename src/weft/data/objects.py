"""Data given in Python: lists, tables of columns, pandas and polars frames, Hugging Face data sets, as records.

None of these packages is imported: a frame or a data set is known by the methods it has.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from weft.data.badlines import BadLines, at_least_one
from weft.data.records import Pair, Record, Text
from weft.data.sources import PYTHON
from weft.data.texts import BLOCK
from weft.data.values import Columns, LabelNames, read_example, show_value
from weft.errors import DataError, counted

LOOKED_AT = 1000
"""Strings of a list that are looked for among the files, to know texts from paths."""


class Objects:
    """Python data that can be read as records, as often as needed. `name` is where it was given: data.train."""

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
        """What stands for the data in a configuration: the number of records, and a hash of what they hold."""
        return f"{PYTHON}{counted(self.count, 'record')}, {self.content}>"

    def read(self, columns: Columns, bad: BadLines) -> Iterator[Record]:
        """The records; one that cannot be used is reported with its number, counted from 0."""
        return at_least_one(self._read(columns, bad), self.name, bad)

    def _read(self, columns: Columns, bad: BadLines) -> Iterator[Record]:
        for number, row in enumerate(self.rows()):
            try:
                record = read_example(row, columns, f"{self.name}[{number}]", self.labels)
            except DataError as error:
                bad.report(error)
                continue
            if columns.joined and isinstance(record, Text):
                yield from _blocks(record)
            elif isinstance(record, Pair) and not (record.source and record.target):
                bad.empty += 1
            elif record.key:
                yield record


def find_objects(data: Any, name: str) -> Objects | None:
    """Python data; None for a path, or for a list of strings that all look like paths or of which one is a file."""
    if isinstance(data, str | os.PathLike):
        return None
    strings = isinstance(data, list | tuple) and data and all(isinstance(item, str | os.PathLike) for item in data)
    if strings and (all(map(_like_a_path, data)) or any(map(_is_file, islice(data, LOOKED_AT)))):
        return None
    return Objects(data, name)


def each_row(data: Any, name: str) -> Iterator[Any]:
    """The rows of Python data, once."""
    return _rows_of(data, name)()


def _rows_of(data: Any, name: str) -> Callable[[], Iterator[Any]]:
    """A function that begins a new pass over the rows."""
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
    rows = list(data) if isinstance(data, Iterator) else data  # an iterator serves only once
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


def _is_file(text: str | os.PathLike[str]) -> bool:
    try:
        return Path(text).exists()
    except (OSError, ValueError):  # too long for a path, or with a NUL
        return False


def _blocks(record: Text) -> Iterator[Text]:
    """Parts of a running text that end at a line end, as `read_stream` has them."""
    text = record.text if record.text.endswith("\n") else f"{record.text}\n"
    start = 0
    while start < len(text):
        end = text.find("\n", start + BLOCK - 1) + 1 or len(text)
        yield Text(text[start:end], record.place)
        start = end


def _plain(value: Any) -> Any:
    """What JSON cannot hold: arrays and numbers of other packages, or anything else as it shows itself."""
    return value.tolist() if hasattr(value, "tolist") else str(value)
