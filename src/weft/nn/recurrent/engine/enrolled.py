"""The cells of layers by a number, and how the last passes of each ran.

Operators of torch and torch.compile take numbers, not objects. Layers may share a plan and its kernels, but not what
`explain` prints of their last passes.
"""

from __future__ import annotations

import itertools
from weakref import WeakKeyDictionary, WeakValueDictionary

from weft.nn.recurrent.cell import Cell

NO_LAYER = -1
"""The number of no layer."""

_cells: WeakValueDictionary[int, Cell] = WeakValueDictionary()
_passes: WeakKeyDictionary[Cell, dict[str, object]] = WeakKeyDictionary()
_numbers = itertools.count()


def enroll(cell: Cell) -> int:
    """A number for the cell of a layer."""
    number = next(_numbers)
    _cells[number] = cell
    return number


def enrolled(number: int) -> Cell:
    """The cell with this number."""
    return _cells[number]


def note_pass(number: int, name: str, how: object) -> None:
    """Remember how the last pass of this name ran in the layer of a cell; `how` is printed."""
    if (cell := _cells.get(number)) is not None:
        _passes.setdefault(cell, {})[name] = how


def last_passes(cell: Cell) -> dict[str, object]:
    """How the last passes of a cell's layer ran, by their names."""
    return _passes.get(cell, {})
