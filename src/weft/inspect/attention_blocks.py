"""A large map in blocks: no screen shows millions of cells, so neighbours are replaced by their mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

MAX_CHART_SIDE: Final = 400
MAX_CHART_CELLS: Final = 30_000
"""Rows or columns, and cells, of the map in a chart; more of them take a browser seconds to draw."""


class Blocks(NamedTuple):
    """The means of blocks of `tall` × `wide` weights (R, C), and the labels of rows and columns of blocks."""

    tall: int
    wide: int
    weights: NDArray[np.float32]
    rows: tuple[str, ...]
    columns: tuple[str, ...]

    @classmethod
    def of(cls, weights: NDArray[Any], rows: Sequence[str], columns: Sequence[str], tall: int, wide: int) -> Blocks:
        """Divide a map into blocks; the last ones may be smaller."""
        means = _means(_means(weights, tall).T, wide).T if max(tall, wide) > 1 else weights
        return cls(tall, wide, means, _labels(rows, tall), _labels(columns, wide))

    @property
    def single(self) -> bool:
        """Whether each block is one weight."""
        return self.tall == self.wide == 1


def _means(weights: NDArray[Any], size: int) -> NDArray[np.float32]:
    """(R, C) -> the means of each `size` rows."""
    starts = np.arange(0, len(weights), size)
    counts = np.diff([*starts, len(weights)])[:, None]
    found: NDArray[np.float32] = (np.add.reduceat(weights, starts, axis=0) / counts).astype(np.float32)
    return found


def _labels(tokens: Sequence[str], size: int) -> tuple[str, ...]:
    """The first token of each block."""
    return tuple(tokens) if size == 1 else tuple(f"{tokens[place]} …" for place in range(0, len(tokens), size))


def block_sizes(rows: int, columns: int, *, sides: tuple[int, int] | None = None) -> tuple[int, int]:
    """Return the height and width of blocks that a chart can show, or that make at most so many rows and columns.

    The longer side is divided first: ten rows over a thousand columns stay ten.
    """
    if sides is not None:
        return max(1, -(-rows // sides[0])), max(1, -(-columns // sides[1]))
    tall = wide = 1
    while True:
        down, across = -(-rows // tall), -(-columns // wide)
        if max(down, across) <= MAX_CHART_SIDE and down * across <= MAX_CHART_CELLS:
            return tall, wide
        tall, wide = tall + (down >= across), wide + (across >= down)
