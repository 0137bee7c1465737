"""Batches of rows laid end to end, a few shapes in all.

Without padding a batch costs its tokens and nothing else, so rows need not be of one length; but kernels are built for
rows up to 16, 32, 64, … tokens, and a graph is captured for one shape. So rows are drawn at random within such a class,
as many as there is room for, and every batch of a class has the same room: what is left over of it is a few per cent.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from weft.data.batches import Epochs, Lengths, Rows

SHORTEST_CLASS = 16
"""Rows below this length are not told apart."""

SLACK = 1.03
"""Room beyond the mean: with none, the side that happens to be long would always end the batch."""

UNIT = 64
"""Tokens of a batch are a multiple of this, as fast products want it."""


class Side(NamedTuple):
    """What one side of a batch holds when it is full: rows, tokens in all, and the most tokens of a row."""

    rows: int
    tokens: int
    longest: int


class Room(NamedTuple):
    """What a batch may hold: rows, the tokens of each side, and the longest row."""

    rows: int
    tokens: tuple[int, ...]
    longest: int

    def side(self, number: int) -> Side:
        """One side, with rows to spare for what fills it up; as many on every side, for they belong together."""
        return Side(self.rows + max(self.tokens) // self.longest + 1, self.tokens[number], self.longest)


class PackedBatches(Epochs):
    """Batches of at most `batch_tokens` on either side, none of which is padding. Every row is in exactly one batch."""

    def __init__(self, lengths: ArrayLike, *, batch_tokens: int, seed: int = 0) -> None:
        super().__init__(lengths, batch_tokens=batch_tokens, seed=seed)
        longest = np.maximum(self.sides.max(1, initial=0), SHORTEST_CLASS)
        # x - 1 has as many binary digits as the power of two above it has zeros.
        _, exponents = np.frexp((longest - 1).astype(np.float64))
        self.classes: Lengths = np.left_shift(1, exponents, dtype=longest.dtype)
        self.rooms = {int(size): self._room(int(size)) for size in np.unique(self.classes)}

    def room(self, rows: Rows) -> Room:
        """The room of the batch of these rows."""
        return self.rooms[int(self.classes[rows[0]])]

    def draw(self, random: np.random.Generator) -> list[Rows]:
        batches: list[Rows] = []
        for size, room in self.rooms.items():
            batches += self._cut(random.permutation(np.flatnonzero(self.classes == size)), room)
        return batches

    def places(self, rows: Rows) -> int:
        return sum(self.room(rows).tokens)

    def _room(self, size: int) -> Room:
        """Equal parts of all that the class has, so that no batch is left nearly empty."""
        mine = self.sides[self.classes == size]
        if (mine == mine[0]).all():  # equal rows need no slack: so many fit, or one
            parts = -(-len(mine) // max(1, self.batch_tokens // max(1, int(mine[0].max()))))
            rows = -(-len(mine) // parts)
            tokens = np.maximum(mine[0].astype(np.int64) * rows, size)
        else:
            whole = mine.sum(0, dtype=np.int64)
            parts = max(1, int(np.ceil(whole.max() * SLACK / self.batch_tokens)))
            slack = SLACK if parts > 1 else 1.0
            rows = int(len(mine) / parts * slack) + 1
            tokens = np.maximum(np.ceil(whole / parts * slack), size).astype(np.int64)
        return Room(rows, tuple((-(-tokens // UNIT) * UNIT).tolist()), size)

    def _cut(self, rows: Rows, room: Room) -> list[Rows]:
        """As many rows at a time as fit."""
        ends = self.sides[rows].cumsum(0, dtype=np.int64)
        batches: list[Rows] = []
        start = 0
        while start < len(rows):
            before = ends[start - 1] if start else np.zeros(self.sides.shape[1], dtype=np.int64)
            fits = [
                int(np.searchsorted(ends[:, side], before[side] + tokens, side="right"))
                for side, tokens in enumerate(room.tokens)
            ]
            end = max(start + 1, min(*fits, start + room.rows, len(rows)))
            batches.append(rows[start:end])
            start = end
        return batches
