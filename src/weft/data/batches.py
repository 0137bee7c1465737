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

from weft.errors import ConfigError

Rows: TypeAlias = NDArray[np.int64]
Lengths: TypeAlias = NDArray[np.int32]

POOL = 256
"""Batches' worth of rows that are sorted by length together: more means less padding, fewer more variety."""


MANY, RUN = 4_000_000, 16
"""Rows from which on runs of so many are shuffled, not single rows."""


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
        self._drawn: tuple[int, list[Rows]] | None = None

    def draw(self, random: np.random.Generator) -> list[Rows]:
        """The batches of an epoch, in any order."""
        raise NotImplementedError

    def places(self, rows: Rows) -> int:
        """The positions that a batch of these rows takes, over all sides, those that hold no token included."""
        raise NotImplementedError

    def epoch(self, number: int) -> list[Rows]:
        """The batches of one epoch, in random order; the same for the same seed and number. The last is remembered."""
        if self._drawn is None or self._drawn[0] != number:
            self._drawn = None  # first, so that there are never two in memory
            random = np.random.default_rng((self.seed, number))
            batches = self.draw(random)
            self._drawn = number, [batches[index] for index in random.permutation(len(batches)).tolist()]
        return list(self._drawn[1])

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
        tokens = max(int(self.lengths.sum()), 1)
        pools = -(-tokens // (POOL * self.batch_tokens))
        shuffled = _shuffled(len(self.lengths), random)
        # With two sides there are more kinds of row, and coarser ones leave each kind enough rows for a batch.
        bits = 6 if self.sides.shape[1] == 1 else 5
        batches: list[Rows] = []
        for pool in np.array_split(shuffled, pools):
            if len(shuffled) >= MANY:
                random.shuffle(pool)
            batches += self._cut(pool, _round_up(self.lengths[pool], bits=bits))
        return batches

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


def _shuffled(count: int, random: np.random.Generator) -> Rows:
    """Rows 0 … N-1 in random order; of very many, short runs of neighbours, which then are shuffled in their pool.

    To move tens of millions of numbers one by one through memory takes longer than everything else before training.
    """
    if count < MANY:
        return random.permutation(count)
    whole = count // RUN * RUN
    runs = random.permutation(count // RUN)[:, None] * RUN + np.arange(RUN)
    return np.append(runs, np.arange(whole, count)) if whole < count else runs.ravel()


def compact(lengths: ArrayLike) -> Lengths:
    """Lengths in four bytes each: a large text has tens of millions of rows. No row has 2 billion tokens."""
    return np.asarray(lengths).astype(np.int32, copy=False)


def _round_up(lengths: Lengths, *, bits: int) -> Lengths:
    """Lengths to so many bits, else rows of rare lengths would have the same neighbours in every epoch."""
    _, exponents = np.frexp(lengths.astype(np.float32 if lengths.max(initial=0) < 1 << 24 else np.float64))
    step = np.left_shift(1, np.maximum(exponents - bits, 0), dtype=lengths.dtype)
    rounded: Lengths = (lengths + step - 1) // step * step
    return rounded
