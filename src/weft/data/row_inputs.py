"""Inputs from rows that are read a part of a file at a time: JSON lines, or the values of Parquet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from weft.data.badlines import BadLines
from weft.data.columns import Column, Key, Wanted
from weft.data.example_columns import Columns
from weft.data.input_file import Input
from weft.data.inputs import needed_settings, replace_input, row_input
from weft.data.jsonrows import Object, parse_objects
from weft.data.records import Tagged
from weft.data.tables import Format, Row, Table, find_keys
from weft.data.values import read_input
from weft.errors import DataError


@dataclass(frozen=True)
class RowInputs:
    """The columns of the inputs in a file; `read` makes the inputs of any of its rows, on any machine."""

    name: str
    """The name of the file as messages have it."""
    path: str
    """The path of the file, beside which relative paths of pictures are found."""
    format: Format
    columns: Columns
    keys: dict[str, tuple[Key, ...]]

    @staticmethod
    def find(
        name: str, path: str, format: Format, first: Object | None, columns: Columns, column: Column | None
    ) -> RowInputs:
        """Find the columns of a file, given its first row; `column` replaces that of the input."""
        found = replace_input(columns, column)
        return RowInputs(name, path, format, found, find_keys(name, first, _wanted(found)))

    def table(self) -> Table:
        """A table without rows, which knows the columns of the inputs."""
        return Table(self.path, self.format, None, None, iter(()), self.keys, _wanted(self.columns))


def _wanted(columns: Columns) -> Wanted:
    settings = columns.settings()
    return Wanted(settings, set(needed_settings(settings)), "--column={column}")


def read_rows(inputs: RowInputs, rows: Iterable[tuple[int, Any]], bad: BadLines) -> Iterator[tuple[int, Object, Input]]:
    """Yield the number, the values and the input of each row; rows of JSON lines are bytes. A bad row is reported."""
    table, columns = inputs.table(), inputs.columns
    objects = rows if inputs.format == "parquet" else parse_objects(rows, inputs.name, bad)
    for number, values in objects:
        row = Row(f"{inputs.name}:{number}", values)
        try:
            if columns.record is Tagged and not columns.steps:
                found = Input(row.place, _read_words(values, columns, row.place), row)
            else:
                found = row_input(table, row, columns)
            if found.error is not None:
                raise found.error
        except DataError as error:
            bad.report(error)
            continue
        yield number, values, found


def _read_words(values: Object, columns: Columns, place: str) -> Any:
    """The words of a sentence, or its text; None if it is empty."""
    found = read_input(values, columns, place)
    return (found if not isinstance(found, str) or found.strip() else None) or None
