"""A large map in blocks: no screen shows millions of cells, so neighbours are replaced by their mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

MAX_CHART_SIDE: Final = 400
MAX_CHART_CELLS: Final = 40_000
"""Rows or columns, and cells, of the map in a chart; a browser draws so many in about a second."""


class Blocks(NamedTuple):
    """The means of blocks of `size` × `size` weights (R, C), and the labels of rows and columns of blocks."""

    size: int
    weights: NDArray[np.float32]
    rows: tuple[str, ...]
    columns: tuple[str, ...]

    @classmethod
    def of(
        cls, weights: NDArray[Any], rows: Sequence[str], columns: Sequence[str], size: int, *, rows_size: int = 0
    ) -> Blocks:
        """Divide a map into blocks; the last ones may be smaller. `rows_size` is another number of rows in a block."""
        tall = rows_size or size
        return cls(
            size,
            _means(_means(weights, tall).T, size).T if size > 1 or tall > 1 else weights,
            _labels(rows, tall),
            _labels(columns, size),
        )


def _means(weights: NDArray[Any], size: int) -> NDArray[np.float32]:
    """(R, C) -> the means of each `size` rows."""
    starts = np.arange(0, len(weights), size)
    counts = np.diff([*starts, len(weights)])[:, None]
    found: NDArray[np.float32] = (np.add.reduceat(weights, starts, axis=0) / counts).astype(np.float32)
    return found


def _labels(tokens: Sequence[str], size: int) -> tuple[str, ...]:
    """The first token of each block."""
    return tuple(tokens) if size == 1 else tuple(f"{tokens[place]} …" for place in range(0, len(tokens), size))


def block_size(rows: int, columns: int, *, sides: tuple[int, int] | None = None) -> int:
    """The size of blocks that a chart can show, or that make at most so many rows and columns."""
    size = 1
    while True:
        tall, wide = -(-rows // size), -(-columns // size)
        if sides is not None:
            fits = tall <= sides[0] and wide <= sides[1]
        else:
            fits = max(tall, wide) <= MAX_CHART_SIDE and tall * wide <= MAX_CHART_CELLS
        if fits:
            return size
        size += 1
