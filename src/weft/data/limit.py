"""The limit on the tokens of an example, and the policies for longer ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias, TypeVar

from weft.errors import DataError, counted

Overlong: TypeAlias = Literal["error", "truncate", "split", "drop"]
Item = TypeVar("Item")


@dataclass
class Limit:
    """Cuts rows to at most `max_length` items, and counts the rows that were longer.

    With `overlap`, each piece of a split begins with that many items of the one before, in addition to the length: a
    piece of running text needs the token before its first to predict it.

    A `moving` limit keeps texts whole: they are cut anew in every epoch (see pieces.py). One of an evaluation, by the
    `positions` that a model has, keeps a row for each record.
    """

    max_length: int
    overlong: Overlong
    overlap: int = 0
    moving: bool = False
    positions: int | None = None
    overlong_seen: int = field(default=0, init=False)

    def cut(self, ids: list[Item], place: str = "") -> list[list[Item]]:
        """Return the pieces of `ids` by the policy: itself, its beginning, all its parts, or none."""
        most = self.max_length + self.overlap
        if self.moving or len(ids) <= most:
            return [ids]
        self.overlong_seen += 1
        if self.overlong == "error":
            what = f"{len(ids) - self.overlap:,} tokens, more than {self._bound()}"
            cure = 'raise data.max_length, or set data.overlong to another policy, such as "truncate"'
            if self.positions is not None:
                cure = 'shorten the text, or set data.overlong = "truncate"'
            raise DataError(what, where=place or None, cure=cure)
        if self.overlong == "drop":
            return []
        if self.overlong == "truncate":
            return [ids[:most]]
        starts = range(0, len(ids) - self.overlap, self.max_length)
        return [ids[start : start + most] for start in starts]

    def cut_pair(self, first: list[Item], second: list[Item], place: str = "") -> list[tuple[list[Item], list[Item]]]:
        """Return a pair whose texts together have `max_length` items at most, one fewer for what separates them.

        Of a pair that is cut off, a text loses items only if it has more than half of them.
        """
        most = self.max_length - 1
        if len(first) + len(second) <= most:
            return [(first, second)]
        if not self.cut([*first, *second, *first[:1]], place):  # an item more, for what separates them
            return []
        kept = min(len(second), max(most // 2, most - len(first)))
        return [(first[: most - kept], second[:kept])]

    def notes(self) -> tuple[str, ...]:
        """Notes for the user about the rows that were longer."""
        if not self.overlong_seen:
            return ()
        done = {"truncate": "cut off", "split": "split", "drop": "left out"}[self.overlong]
        examples = counted(self.overlong_seen, "example")
        return (f"{done} {examples} of more tokens than {self._bound()}",)

    def _bound(self) -> str:
        if self.positions is None:
            return f"data.max_length = {self.max_length:,}"
        return f"the {self.max_length:,} that model.max_positions = {self.positions:,} has room for"
