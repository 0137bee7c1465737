"""The batches of an epoch over very many rows, cut when they are asked for.

To move tens of millions of numbers one by one through memory, and to sort them, takes longer than everything else
before training. So short runs of neighbours are shuffled, not single rows; how many batches each pool of rows makes is
counted from its lengths alone; and a pool is shuffled, sorted and cut when the first of its batches comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, overload

import numpy as np
from numpy.typing import NDArray

RUN: Final = 16
"""Neighbours that stay together until their pool is shuffled."""

Rows = NDArray[Any]
Cut = Callable[[Rows], Iterator[Rows]]
"""Rows of a pool -> its batches, views of them."""


class Pools(Sequence[Rows]):
    """The batches of `count` pools; `sizes` tells how many a pool makes, `cut` makes them."""

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
        """Which batch has that row."""
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
    """Rows 0 … N-1 in random order, in runs of neighbours; what is left over comes last."""
    kind = np.int32 if count < np.iinfo(np.int32).max else np.int64
    runs: Rows = random.permutation(count // RUN).astype(kind)
    runs = runs[:, None] * RUN + np.arange(RUN, dtype=kind)
    rest = np.arange(count // RUN * RUN, count, dtype=kind)
    return np.append(runs, rest) if len(rest) else runs.ravel()
