"""What to do with a line that cannot be used: stop at once, or count it and go on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from weft.errors import DataError, counted

Record = TypeVar("Record")


@dataclass
class BadLines:
    """The account of one reading. A reader hands every faulty line, row or sentence to `report`."""

    skip: bool = False
    count: int = 0
    first: DataError | None = None
    empty: int = 0
    """Pairs left out because a side is empty; parallel corpora have such gaps, so these are no errors."""
    notes: list[str] = field(default_factory=list)
    """What was found out about a file that a person should know."""

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def report(self, error: DataError) -> None:
        """Raise the error, or count it when lines may be skipped."""
        if not self.skip:
            raise error
        self.count += 1
        if self.first is None:
            # Its traceback would keep the reader's frames, and with them the open file, alive.
            self.first = error.with_traceback(None)

    def __str__(self) -> str:
        return f"{counted(self.count, 'bad line')}, the first: {self.first}"


def at_least_one(records: Iterator[Record], name: str, bad: BadLines) -> Iterator[Record]:
    """The records of the file `name`, which must have some."""
    found = False
    for record in records:
        found = True
        yield record
    if not found:
        cure = "give at least one example"
        if bad.first is not None:
            cure = f"lines skipped: {bad.count}, the first because of {bad.first}"
        raise DataError(f"no examples in {name}", cure=cure)
