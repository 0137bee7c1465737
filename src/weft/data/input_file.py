"""The contract of a file of inputs: one pass over its rows, each of which is written again with its answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, NamedTuple, Protocol

from weft.data.images import Picture
from weft.data.series import Series
from weft.data.steps import Steps
from weft.errors import DataError


class Input(NamedTuple):
    """One row: its file and line, its input (None if it is empty), the row itself, the language of its target, and the
    error of an input that cannot be read, which is answered like an empty one."""

    place: str
    source: str | list[str] | tuple[str, str] | Steps | Series | Picture | None
    row: Any
    language: str | None = None
    error: DataError | None = None


class InputFile(Protocol):
    """One pass over a file. `cells` are the columns of an answer, empty for a row without an answer."""

    plain: ClassVar[bool]
    """Whether an answer is a line by itself."""

    def __iter__(self) -> Iterator[Input]: ...

    def begin(self) -> str:
        """The text before the first row."""
        ...

    def write(self, item: Input, line: str, cells: Mapping[str, Any]) -> str:
        """Format a row with its answer, which is `line` in plain text."""
        ...

    def end(self) -> str:
        """The text after the last row."""
        ...
