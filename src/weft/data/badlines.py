"""Bad lines of a file: reading stops at the first, or they are counted and skipped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from weft.errors import DataError, counted

Record = TypeVar("Record")


@dataclass
class BadLines:
    """Counts the bad lines of one pass over a file. A reader passes every bad line, row or sentence to `report`."""

    skip: bool = False
    count: int = 0
    first: DataError | None = None
    empty: int = 0
    """Pairs skipped because a side is empty; parallel corpora have such gaps, so these are not errors."""
    notes: list[str] = field(default_factory=list)
    """Notes about a file for the user."""

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def report(self, error: DataError) -> None:
        """Raise the error, or count it if lines may be skipped."""
        if not self.skip:
            raise error
        self.count += 1
        if self.first is None:
            # Its traceback would keep the reader's frames, and so the open file, alive.
            self.first = error.with_traceback(None)

    def __str__(self) -> str:
        return f"{counted(self.count, 'bad line')}, the first: {self.first}"


def at_least_one(records: Iterator[Record], name: str, bad: BadLines) -> Iterator[Record]:
    """Yield the records of the file `name`; raises a DataError if it has none."""
    found = False
    for record in records:
        found = True
        yield record
    if not found:
        cure = "give at least one example"
        if bad.first is not None:
            cure = f"lines skipped: {bad.count}, the first because of {bad.first}"
        raise DataError(f"no examples in {name}", cure=cure)
