"""Batches of rows under a budget of padded tokens.

A batch of B rows costs B times its longest row, padding included. Rows of similar length go together, so little of the
budget is padding; which rows those are, and the order of the batches, is drawn anew in every epoch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.errors import ConfigError

Rows: TypeAlias = NDArray[np.int64]

POOL = 256
"""Batches' worth of rows that are sorted by length together: more means less padding, fewer more variety."""


class Batches:
    """Rows 0 … N-1 of the given lengths (N,), cut into batches with rows × longest ≤ `batch_tokens`.

    A row longer than the budget is a batch of its own. Every row is in exactly one batch.
    """

    def __init__(self, lengths: ArrayLike, *, batch_tokens: int, seed: int = 0) -> None:
        if batch_tokens < 1:
            raise ConfigError(f"{batch_tokens} leaves no room for a token", where="train.batch_tokens", cure="raise it")
        self.lengths = np.asarray(lengths, dtype=np.int64)
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
        rounded = _round_up(self.lengths)
        batches = [batch for pool in np.array_split(shuffled, pools) for batch in self._cut(pool, rounded)]
        return [batches[index] for index in random.permutation(len(batches))]

    def in_order(self) -> list[Rows]:
        """The batches for evaluation, longest rows first, so that a lack of memory shows at once."""
        return list(self._cut(np.arange(len(self.lengths)), self.lengths))

    def _cut(self, rows: Rows, lengths: Rows) -> Iterator[Rows]:
        """Batches of `rows`, sorted from long to short by `lengths`, none of which is less than the true length."""
        # Stable: equal lengths stay as shuffled on every machine.
        rows = rows[np.argsort(-lengths[rows], kind="stable")]
        sizes = np.maximum(self.batch_tokens // np.maximum(lengths[rows], 1), 1)
        start = 0
        while start < len(rows):
            end = start + int(sizes[start])
            yield rows[start:end]
            start = end


def _round_up(lengths: Rows) -> Rows:
    """Lengths to about three per cent, else rows of rare lengths would have the same neighbours in every epoch."""
    _, bits = np.frexp(lengths)
    step = np.left_shift(1, np.maximum(bits.astype(np.int64) - 6, 0))
    return (lengths + step - 1) // step * step
