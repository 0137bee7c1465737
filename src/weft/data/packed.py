"""Packed batches: rows laid end to end without padding between them, in a few shapes.

A packed batch costs its tokens and nothing else, so its rows may differ in length. But kernels are built for rows of up
to 16, 32, 64, … tokens, and a CUDA graph is captured for one shape. So a batch has rows of one such length class, drawn
at random, and all batches of a class have the same capacity; a few per cent of it stay empty.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from weft.data.batches import Epochs, Lengths, Rows

SHORTEST_CLASS_TOKENS = 16
"""Tokens of the first length class, which has all shorter rows too."""

SLACK = 1.03
"""Capacity as a factor of the mean: with 1, the side that happens to be longer would always end the batch early."""

TOKENS_MULTIPLE = 64
"""The tokens of a batch are a multiple of this, for fast matrix products."""


class Side(NamedTuple):
    """The capacity of one side of a batch: rows, tokens in all, and tokens of the longest row."""

    rows: int
    tokens: int
    longest: int


class Capacity(NamedTuple):
    """The capacity of a batch: rows, the tokens of each side, and tokens of the longest row."""

    rows: int
    tokens: tuple[int, ...]
    longest: int

    def side(self, number: int) -> Side:
        """The capacity of one side, with extra rows for the padding that fills it up; equally many on every side."""
        return Side(self.rows + max(self.tokens) // self.longest + 1, self.tokens[number], self.longest)


class PackedBatches(Epochs):
    """Packed batches of at most `batch_tokens` tokens on either side. Every row is in exactly one batch."""

    def __init__(self, lengths: ArrayLike, *, batch_tokens: int, seed: int = 0) -> None:
        super().__init__(lengths, batch_tokens=batch_tokens, seed=seed)
        longest = np.maximum(self.sides.max(1, initial=0), SHORTEST_CLASS_TOKENS)
        # x - 1 has as many binary digits as the power of two above it has zeros.
        _, exponents = np.frexp((longest - 1).astype(np.float64))
        self.classes: Lengths = np.left_shift(1, exponents, dtype=longest.dtype)
        self.capacities = {int(size): self._capacity(int(size)) for size in np.unique(self.classes)}

    def capacity(self, rows: Rows) -> Capacity:
        """Return the capacity of the batch of these rows."""
        return self.capacities[int(self.classes[rows[0]])]

    def draw(self, random: np.random.Generator) -> list[Rows]:
        batches: list[Rows] = []
        for size, capacity in self.capacities.items():
            batches += self._cut(random.permutation(np.flatnonzero(self.classes == size)), capacity)
        return batches

    def places(self, rows: Rows) -> int:
        return sum(self.capacity(rows).tokens)

    def _capacity(self, size: int) -> Capacity:
        """Return the capacity that divides a class into equal batches, so that none is nearly empty."""
        mine = self.sides[self.classes == size]
        if (mine == mine[0]).all():  # equal rows need no slack
            parts = -(-len(mine) // max(1, self.batch_tokens // max(1, int(mine[0].max()))))
            rows = -(-len(mine) // parts)
            tokens = np.maximum(mine[0].astype(np.int64) * rows, size)
        else:
            whole = mine.sum(0, dtype=np.int64)
            parts = max(1, int(np.ceil(whole.max() * SLACK / self.batch_tokens)))
            slack = SLACK if parts > 1 else 1.0
            rows = int(len(mine) / parts * slack) + 1
            tokens = np.maximum(np.ceil(whole / parts * slack), size).astype(np.int64)
        return Capacity(rows, tuple((-(-tokens // TOKENS_MULTIPLE) * TOKENS_MULTIPLE).tolist()), size)

    def _cut(self, rows: Rows, capacity: Capacity) -> list[Rows]:
        """Cut rows into batches, as many rows at a time as fit."""
        ends = self.sides[rows].cumsum(0, dtype=np.int64)
        batches: list[Rows] = []
        start = 0
        while start < len(rows):
            before = ends[start - 1] if start else np.zeros(self.sides.shape[1], dtype=np.int64)
            fits = [
                int(np.searchsorted(ends[:, side], before[side] + tokens, side="right"))
                for side, tokens in enumerate(capacity.tokens)
            ]
            end = max(start + 1, min(*fits, start + capacity.rows, len(rows)))
            batches.append(rows[start:end])
            start = end
        return batches
