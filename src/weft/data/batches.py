"""Batches of rows under a budget of padded tokens.

A batch of B rows costs B times its longest row, padding included. Rows of similar length go together, so little of the
budget is padding; which rows those are, and the order of the batches, is drawn anew in every epoch. Rows with two
sides, such as sentence pairs, cost what their longer side costs, and among equals go together by how far the sides
differ; so neither side is padded much.
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

POOL = 256
"""Batches' worth of rows that are sorted by length together: more means less padding, fewer more variety."""


MANY = 4_000_000
"""Rows from which on batches are made when they are asked for, see pools.py."""


class Epochs:
    """Rows 0 … N-1 of the given lengths (N,), or (N, 2) with two sides, in batches that are drawn anew in every epoch.

    `draw` says which rows go together; the order of the batches is random too.
    """

    def __init__(self, lengths: ArrayLike, *, batch_tokens: int, seed: int = 0) -> None:
        if batch_tokens < 1:
            raise ConfigError(f"{batch_tokens} leaves no room for a token", where="train.batch_tokens", cure="raise it")
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
        """The positions that a batch of these rows takes, over all sides, those that hold no token included."""
        raise NotImplementedError

    def epoch(self, number: int) -> Sequence[Rows]:
        """The batches of one epoch, in random order; the same for the same seed and number. The last is remembered."""
        if self._drawn is None or self._drawn[0] != number:
            self._drawn = None  # first, so that there are never two in memory
            self._drawn = number, self.draw_epoch(number)
        return self._drawn[1]

    def largest(self, number: int) -> int:
        """Which batch of an epoch takes the most positions."""
        return int(np.argmax([self.places(rows) for rows in self.epoch(number)]))

    def padding(self, batches: Sequence[Rows]) -> float:
        """The share of the batches' positions that holds no token, over all sides."""
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
        if len(self.lengths) < MANY:
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
        return -(-max(int(self.lengths.sum()), 1) // (POOL * self.batch_tokens))

    def _rounded(self, lengths: Lengths) -> Lengths:
        # With two sides there are more kinds of row, and coarser ones leave each kind enough rows for a batch.
        return _round_up(lengths, bits=6 if self.sides.shape[1] == 1 else 5)

    def _count(self, pool: Rows) -> int:
        """How many batches `_cut` would make of the pool, from how often each length is there."""
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
        """Of very many batches, which all but fill the budget, the one with the longest row."""
        epoch = self.epoch(number)
        return epoch.with_row(int(self.lengths.argmax())) if isinstance(epoch, Pools) else super().largest(number)

    def in_order(self) -> list[Rows]:
        """The batches for evaluation, longest rows first, so that a lack of memory shows at once."""
        return list(self._cut(np.arange(len(self.lengths)), self.lengths))

    def places(self, rows: Rows) -> int:
        return len(rows) * int(self.sides[rows].max(0).sum())

    def _cut(self, rows: Rows, lengths: Lengths) -> Iterator[Rows]:
        """Views of `rows`, sorted in place from long to short by their `lengths`, none of them less than the true."""
        order = self._order(rows, lengths)
        rows[:], lengths = rows[order], lengths[order]
        start = 0
        while start < len(rows):
            end = start + max(self.batch_tokens // max(int(lengths[start]), 1), 1)
            yield rows[start:end]
            start = end

    def _order(self, rows: Rows, lengths: Lengths) -> Rows:
        """From long to short; equal rows stay as shuffled on every machine."""
        if self.sides.shape[1] == 1:
            # Numbers of two bytes are sorted by their digits, many times as fast.
            short = lengths.max(initial=0) < np.iinfo(np.int16).max
            return np.argsort(-(lengths.astype(np.int16) if short else lengths), kind="stable")
        _, place = np.unique(-lengths, return_inverse=True)
        # To and fro, so that the difference does not jump where one length ends and the next begins.
        lean = (self.sides[rows, 0] - self.sides[rows, -1]) * np.where(place % 2, -1, 1)
        return np.lexsort((lean, place))


def compact(lengths: ArrayLike) -> Lengths:
    """Lengths in four bytes each: a large text has tens of millions of rows. No row has 2 billion tokens."""
    return np.asarray(lengths).astype(np.int32, copy=False)


def _round_up(lengths: Lengths, *, bits: int) -> Lengths:
    """Lengths to so many bits, else rows of rare lengths would have the same neighbours in every epoch."""
    _, exponents = np.frexp(lengths.astype(np.float32 if lengths.max(initial=0) < 1 << 24 else np.float64))
    step = np.left_shift(1, np.maximum(exponents - bits, 0), dtype=lengths.dtype)
    rounded: Lengths = (lengths + step - 1) // step * step
    return rounded
