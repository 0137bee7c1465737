"""The settings of tasks whose examples are rows of a table."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from weft import limits
from weft.data import Column, Layout
from weft.errors import ConfigError
from weft.settings import Length
from weft.tasks.sections import DataConfig


def _check_column(value: Any) -> Any:
    """A name, a number from 0, or a list of these; pydantic would report each arm of the union by itself."""
    parts = value if isinstance(value, list) else [value]
    for part in parts:
        if isinstance(part, bool) or not isinstance(part, str | int):
            cure = 'write a name, a number from 0, or a list such as ["title", "body"]'
            raise ConfigError(f"{part!r} is no column", cure=cure)
        if part == "" or (isinstance(part, int) and part < 0):
            raise ConfigError(f"{part!r} is no column", cure="columns have names, or are counted from 0")
        if isinstance(part, int) and part > limits.COLUMN:
            raise ConfigError(f"{part!r} is more than {limits.COLUMN:,}, the limit", cure="columns are counted from 0")
    if not parts:
        raise ConfigError("an empty list of columns", cure='name some, as in ["title", "body"]')
    return value


def _check_delimiter(value: Any) -> Any:
    """Tabs are hard to type; a shell passes on the two characters of \\t as they are."""
    if value in ("\\t", "tab"):
        return "\t"
    if value == "" or (isinstance(value, str) and set(value) & set('\r\n"')):
        raise ConfigError(f"{value!r} cannot separate columns", cure='choose another, such as "," or "tab"')
    return value


ColumnSetting = Annotated[Column, BeforeValidator(_check_column)]


class TableData(DataConfig):
    """Examples in the rows of a table, and how the table is written."""

    delimiter: Annotated[str | None, BeforeValidator(_check_delimiter)] = None
    """The separator of columns in a TSV or CSV; found from the file unless given."""
    header: bool | None = None
    """Whether the first line of a TSV or CSV names the columns; found from the file unless given."""

    @property
    def layout(self) -> Layout:
        return Layout(delimiter=self.delimiter, header=self.header)


class LabelledData(TableData):
    """Texts with an answer: TSV, CSV, JSON, or for labels a folder with a file or a folder per label."""

    text: ColumnSetting = "text"
    """The text's column: a name, a JSON path, a number from 0, or several to be joined."""
    label: ColumnSetting = "label"
    """The label's column."""
    max_length: Length = 400
    """The greatest number of tokens of a training text."""
    overlong: Literal["error", "truncate", "drop"] = "truncate"
    """The treatment of a longer training text."""
