"""The cells that a name can ask for. A new cell is one file and one line here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from weft.errors import ConfigError, did_you_mean
from weft.nn.recurrent.cell import Cell
from weft.nn.recurrent.elman import Elman
from weft.nn.recurrent.gru import GRU
from weft.nn.recurrent.gru_reset_after import GRUResetAfter
from weft.nn.recurrent.lstm import LSTM

CELLS: Final[dict[str, type[Cell]]] = {
    "elman": Elman,
    "lstm": LSTM,
    "gru": GRU,
    "gru_reset_after": GRUResetAfter,
}

CellChoice: TypeAlias = str | Cell | Callable[[int, int], Cell]
"""A name of `CELLS`, a cell used as it is, or a class or function called as `cell(input_size, hidden_size)`."""


def build_cell(choice: CellChoice, input_size: int, hidden_size: int) -> Cell:
    """The cell that was chosen; a finished one must have these sizes already."""
    if isinstance(choice, str):
        if choice not in CELLS:
            raise ConfigError(f'"{choice}" is not a cell', where="cell", cure=did_you_mean(choice, CELLS))
        return CELLS[choice](input_size, hidden_size)
    if not isinstance(choice, Cell):
        return choice(input_size, hidden_size)
    if (choice.input_size, choice.hidden_size) != (input_size, hidden_size):
        have, want = f"{choice.input_size}, {choice.hidden_size}", f"{input_size}, {hidden_size}"
        raise ConfigError(f"a cell of sizes {have} cannot serve as one of {want}", where="cell", cure="give its sizes")
    return choice
