"""Batches of rows under a budget of padded tokens.

A batch of B rows costs B times its longest row, padding included. Rows of similar length share a batch, so little of
the budget is padding; which rows those are, and the order of the batches, is drawn anew in every epoch. Rows with two
sides, such as sentence pairs, cost as much as their longer side; rows of equal cost are sorted by the difference of
their sides, so that neither side is padded much.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.data.pools import Pools
from weft.errors import ConfigError

Rows: TypeAlias = NDArray[np.int64]
Lengths: TypeAlias = NDArray[np.int32]

BATCHES_PER_POOL = 256
"""Rows are sorted by length in pools of about this many batches: more means less padding, fewer more variety."""

MIN_ROWS_FOR_POOLS = 4_000_000
"""With at least this many rows, batches are made when they are needed, see pools.py."""


class Epochs:
    """Rows 0 … N-1 of the given lengths (N,), or (N, 2) with two sides, in batches that are drawn anew in every epoch.

    `draw` chooses the rows of each batch; the order of the batches is random too.
    """

    def __init__(self, lengths: ArrayLike, *, batch_tokens: int, seed: int = 0) -> None:
        if batch_tokens < 1:
            raise ConfigError(
                f"{batch_tokens} is too small for a single token", where="train.batch_tokens", cure="raise it"
            )
        given = compact(lengths)
        self.sides = given[:, None] if given.ndim == 1 else given
        self.batch_tokens, self.seed = batch_tokens, seed
        self._drawn: tuple[int, Sequence[Rows]] | None = None

    def draw(self, random: np.random.Generator) -> list[Rows]:
        """The batches of an epoch, in any order."""
        raise NotImplementedError

    def draw_epoch(self, number: int) -> Sequence[Rows]:
        """The batches of an epoch, in random order."""
        random = np.random.default_rng((self.seed, number))
        batches = self.draw(random)
        return tuple(batches[index] for index in random.permutation(len(batches)).tolist())

    def places(self, rows: Rows) -> int:
        """The positions of a batch of these rows, over all sides, padding included."""
        raise NotImplementedError

    def epoch(self, number: int) -> Sequence[Rows]:
        """Return the batches of one epoch, in random order, determined by seed and number. The last epoch is cached."""
        if self._drawn is None or self._drawn[0] != number:
            self._drawn = None  # freed first, so that there are never two in memory
            self._drawn = number, self.draw_epoch(number)
        return self._drawn[1]

    def largest(self, number: int) -> int:
        """The number of the batch with the most positions in an epoch."""
        return int(np.argmax([self.places(rows) for rows in self.epoch(number)]))

    def padding(self, batches: Sequence[Rows]) -> float:
        """The share of padding among all positions of the batches."""
        places = sum(self.places(rows) for rows in batches)
        return 1 - sum(int(self.sides[rows].sum()) for rows in batches) / places if places else 0.0


class Batches(Epochs):
    """Batches of rows × longest ≤ `batch_tokens` on either side.

    A row longer than the budget is a batch of its own. Every row is in exactly one batch.
    """

    def __init__(self, lengths: ArrayLike, *, batch_tokens: int, seed: int = 0) -> None:
        super().__init__(lengths, batch_tokens=batch_tokens, seed=seed)
        self.lengths = self.sides[:, 0] if self.sides.shape[1] == 1 else self.sides.max(1, initial=0)

    def draw(self, random: np.random.Generator) -> list[Rows]:
        if not len(self.lengths):
            return []
        pools = np.array_split(random.permutation(len(self.lengths)), self._pools)
        return [batch for pool in pools for batch in self._cut(pool, self._rounded(self.lengths[pool]))]

    def draw_epoch(self, number: int) -> Sequence[Rows]:
        if len(self.lengths) < MIN_ROWS_FOR_POOLS:
            return super().draw_epoch(number)
        return Pools(
            len(self.lengths),
            self._pools,
            seed=(self.seed, number),
            sizes=self._count,
            cut=lambda pool: self._cut(pool, self._rounded(self.lengths[pool])),
        )

    @property
    def _pools(self) -> int:
        return -(-max(int(self.lengths.sum()), 1) // (BATCHES_PER_POOL * self.batch_tokens))

    def _rounded(self, lengths: Lengths) -> Lengths:
        # Two sides make more kinds of rows; rounding more leaves enough rows of each kind for a batch.
        return _round_up(lengths, bits=6 if self.sides.shape[1] == 1 else 5)

    def _count(self, pool: Rows) -> int:
        """The number of batches that `_cut` would make of the pool, computed from the counts of its lengths."""
        often = np.bincount(self.lengths[pool])
        lengths = np.nonzero(often)[0][::-1].astype(np.int32)
        rounded, ends = self._rounded(lengths).tolist(), np.cumsum(often[lengths]).tolist()
        count = start = kind = 0
        while start < len(pool):
            while ends[kind] <= start:
                kind += 1
            start += max(self.batch_tokens // max(rounded[kind], 1), 1)
            count += 1
        return count

    def largest(self, number: int) -> int:
        """With pools, the batch with the longest row: all batches nearly fill the budget."""
        epoch = self.epoch(number)
        return epoch.with_row(int(self.lengths.argmax())) if isinstance(epoch, Pools) else super().largest(number)

    def in_order(self) -> list[Rows]:
        """The batches for evaluation, longest rows first, so that a lack of memory shows at once."""
        return list(self._cut(np.arange(len(self.lengths)), self.lengths))

    def places(self, rows: Rows) -> int:
        return len(rows) * int(self.sides[rows].max(0).sum())

    def _cut(self, rows: Rows, lengths: Lengths) -> Iterator[Rows]:
        """Yield views of `rows`, sorted in place from long to short by `lengths`, which are rounded up."""
        order = self._order(rows, lengths)
        rows[:], lengths = rows[order], lengths[order]
        start = 0
        while start < len(rows):
            end = start + max(self.batch_tokens // max(int(lengths[start]), 1), 1)
            yield rows[start:end]
            start = end

    def _order(self, rows: Rows, lengths: Lengths) -> Rows:
        """The order from long to short; rows of equal length keep their shuffled order, the same on every machine."""
        if self.sides.shape[1] == 1:
            # NumPy sorts 16-bit numbers by radix sort, many times as fast.
            short = lengths.max(initial=0) < np.iinfo(np.int16).max
            return np.argsort(-(lengths.astype(np.int16) if short else lengths), kind="stable")
        _, place = np.unique(-lengths, return_inverse=True)
        # The sign alternates, so that the difference does not jump from one length to the next.
        lean = (self.sides[rows, 0] - self.sides[rows, -1]) * np.where(place % 2, -1, 1)
        return np.lexsort((lean, place))


def compact(lengths: ArrayLike) -> Lengths:
    """Store lengths in four bytes each: a large text has tens of millions of rows. No row has 2 billion tokens."""
    return np.asarray(lengths).astype(np.int32, copy=False)


def _round_up(lengths: Lengths, *, bits: int) -> Lengths:
    """Round lengths up to so many bits; else rows of rare lengths would have the same neighbours in every epoch."""
    _, exponents = np.frexp(lengths.astype(np.float32 if lengths.max(initial=0) < 1 << 24 else np.float64))
    step = np.left_shift(1, np.maximum(exponents - bits, 0), dtype=lengths.dtype)
    rounded: Lengths = (lengths + step - 1) // step * step
    return rounded
