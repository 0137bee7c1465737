"""What to do with an example of too many tokens."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias, TypeVar

from weft.errors import DataError, counted

Overlong: TypeAlias = Literal["error", "truncate", "split", "drop"]
Item = TypeVar("Item")


@dataclass
class Limit:
    """At most `max_length` items in a row, and an account of what had to be done to keep to it.

    With `overlap`, each piece of a split begins with that many items of the one before, over and above the length:
    a piece of running text needs the token before its first to predict it.

    A `moving` limit keeps texts whole: their pieces lie elsewhere in every epoch (see pieces.py).
    """

    max_length: int
    overlong: Overlong
    overlap: int = 0
    moving: bool = False
    overlong_seen: int = field(default=0, init=False)

    def cut(self, ids: list[Item], place: str = "") -> list[list[Item]]:
        """The pieces that stand for `ids`: itself, its beginning, all its parts, or none."""
        room = self.max_length + self.overlap
        if self.moving or len(ids) <= room:
            return [ids]
        self.overlong_seen += 1
        if self.overlong == "error":
            what = f"{len(ids) - self.overlap:,} tokens, more than data.max_length = {self.max_length:,}"
            cure = 'raise data.max_length, or set data.overlong to another policy, such as "truncate"'
            raise DataError(what, where=place or None, cure=cure)
        if self.overlong == "drop":
            return []
        if self.overlong == "truncate":
            return [ids[:room]]
        starts = range(0, len(ids) - self.overlap, self.max_length)
        return [ids[start : start + room] for start in starts]

    def notes(self) -> tuple[str, ...]:
        """What a person should know about it."""
        if not self.overlong_seen:
            return ()
        done = {"truncate": "cut off", "split": "split", "drop": "left out"}[self.overlong]
        examples = counted(self.overlong_seen, "example")
        return (f"{done} {examples} of more than data.max_length = {counted(self.max_length, 'token')}",)
