"""The batches of an epoch over very many rows, made when they are needed.

To shuffle and sort tens of millions of numbers takes longer than everything else before training. So short runs of
neighbours are shuffled instead of single rows; the number of batches of each pool of rows is computed from its lengths
alone; and a pool is shuffled, sorted and cut when the first of its batches is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, overload

import numpy as np
from numpy.typing import NDArray

RUN_ROWS: Final = 16
"""Neighbouring rows that stay together until their pool is shuffled."""

Rows = NDArray[Any]
Cut = Callable[[Rows], Iterator[Rows]]
"""(rows of a pool) -> its batches, which are views of them."""


class Pools(Sequence[Rows]):
    """The batches of `count` pools; `sizes` returns the number of batches of a pool, `cut` makes them."""

    def __init__(self, rows: int, count: int, *, seed: tuple[int, int], sizes: Callable[[Rows], int], cut: Cut) -> None:
        random = np.random.default_rng(seed)
        self.pools = np.array_split(_shuffled_runs(rows, random), count)
        self.ends = np.cumsum([sizes(pool) for pool in self.pools])
        self.order = random.permutation(int(self.ends[-1])).astype(np.int32)
        self.seed, self.cut = seed, cut
        self._made: dict[int, list[Rows]] = {}

    def __len__(self) -> int:
        return len(self.order)

    @overload
    def __getitem__(self, index: int) -> Rows: ...

    @overload
    def __getitem__(self, index: slice) -> list[Rows]: ...

    def __getitem__(self, index: int | slice) -> Rows | list[Rows]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        return self._batch(int(self.order[index]))

    def with_row(self, row: int) -> int:
        """The number of the batch with that row."""
        number = next(number for number, pool in enumerate(self.pools) if (pool == row).any())
        own = next(place for place, batch in enumerate(self._pool(number)) if (batch == row).any())
        first = int(self.ends[number - 1]) if number else 0
        return int(np.nonzero(self.order == first + own)[0][0])

    def _batch(self, number: int) -> Rows:
        pool = int(np.searchsorted(self.ends, number, side="right"))
        return self._pool(pool)[number - (int(self.ends[pool - 1]) if pool else 0)]

    def _pool(self, number: int) -> list[Rows]:
        if number not in self._made:
            np.random.default_rng((*self.seed, number)).shuffle(self.pools[number])
            self._made[number] = list(self.cut(self.pools[number]))
        return self._made[number]


def _shuffled_runs(count: int, random: np.random.Generator) -> Rows:
    """Rows 0 … N-1 in runs of neighbours, in random order; an incomplete run comes last."""
    kind = np.int32 if count < np.iinfo(np.int32).max else np.int64
    runs: Rows = random.permutation(count // RUN_ROWS).astype(kind)
    runs = runs[:, None] * RUN_ROWS + np.arange(RUN_ROWS, dtype=kind)
    rest = np.arange(count // RUN_ROWS * RUN_ROWS, count, dtype=kind)
    return np.append(runs, rest) if len(rest) else runs.ravel()
