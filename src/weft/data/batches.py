"""Batches of rows under a budget of padded tokens.

A batch of B rows costs B times its longest row, padding included. Rows of similar length go together, so little of the
budget is padding; which rows those are, and the order of the batches, is drawn anew in every epoch. Rows with two
sides, such as sentence pairs, cost what their longer side costs, and among equals go together by how far the sides
differ; so neither side is padded much.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.errors import ConfigError

Rows: TypeAlias = NDArray[np.int64]

POOL = 256
"""Batches' worth of rows that are sorted by length together: more means less padding, fewer more variety."""


class Batches:
    """Rows 0 … N-1 of the given lengths (N,), or (N, 2) with two sides, cut into batches of rows × longest ≤
    `batch_tokens` on either side.

    A row longer than the budget is a batch of its own. Every row is in exactly one batch.
    """

    def __init__(self, lengths: ArrayLike, *, batch_tokens: int, seed: int = 0) -> None:
        if batch_tokens < 1:
            raise ConfigError(f"{batch_tokens} leaves no room for a token", where="train.batch_tokens", cure="raise it")
        given = np.asarray(lengths, dtype=np.int64)
        self.sides = given[:, None] if given.ndim == 1 else given
        self.lengths: Rows = self.sides.max(1, initial=0)
        self.batch_tokens = batch_tokens
        self.seed = seed

    def epoch(self, number: int) -> list[Rows]:
        """The batches of one epoch, in random order; the same for the same seed and number."""
        if not len(self.lengths):
            return []
        random = np.random.default_rng((self.seed, number))
        tokens = max(int(self.lengths.sum()), 1)
        pools = -(-tokens // (POOL * self.batch_tokens))
        shuffled = random.permutation(len(self.lengths))
        # With two sides there are more kinds of row, and coarser ones leave each kind enough rows for a batch.
        rounded = _round_up(self.lengths, bits=6 if self.sides.shape[1] == 1 else 5)
        batches = [batch for pool in np.array_split(shuffled, pools) for batch in self._cut(pool, rounded)]
        return [batches[index] for index in random.permutation(len(batches))]

    def in_order(self) -> list[Rows]:
        """The batches for evaluation, longest rows first, so that a lack of memory shows at once."""
        return list(self._cut(np.arange(len(self.lengths)), self.lengths))

    def padding(self, batches: Iterable[Rows]) -> float:
        """The share of the batches' positions that is padding, over all sides."""
        padded = sum(len(rows) * int(self.sides[rows].max(0).sum()) for rows in batches)
        return 1 - int(self.sides.sum()) / padded if padded else 0.0

    def _cut(self, rows: Rows, lengths: Rows) -> Iterator[Rows]:
        """Batches of `rows`, sorted from long to short by `lengths`, none of which is less than the true length."""
        rows = self._sort(rows, lengths)
        sizes = np.maximum(self.batch_tokens // np.maximum(lengths[rows], 1), 1)
        start = 0
        while start < len(rows):
            end = start + int(sizes[start])
            yield rows[start:end]
            start = end

    def _sort(self, rows: Rows, lengths: Rows) -> Rows:
        """Equal rows stay as shuffled on every machine."""
        _, place = np.unique(-lengths[rows], return_inverse=True)
        # To and fro, so that the difference does not jump where one length ends and the next begins.
        lean = (self.sides[rows, 0] - self.sides[rows, -1]) * np.where(place % 2, -1, 1)
        return rows[np.lexsort((lean, place))]


def _round_up(lengths: Rows, *, bits: int) -> Rows:
    """Lengths to so many bits, else rows of rare lengths would have the same neighbours in every epoch."""
    _, length = np.frexp(lengths)
    step = np.left_shift(1, np.maximum(length.astype(np.int64) - bits, 0))
    return (lengths + step - 1) // step * step
