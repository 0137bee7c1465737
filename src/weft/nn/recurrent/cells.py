"""The cells that a name can ask for. A new cell is one file and one line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from weft.errors import ConfigError, did_you_mean
from weft.nn.recurrent.cell import Cell
from weft.nn.recurrent.coupled_lstm import CoupledLSTM
from weft.nn.recurrent.elman import Elman
from weft.nn.recurrent.gru import GRU
from weft.nn.recurrent.gru_reset_after import GRUResetAfter
from weft.nn.recurrent.hgrn import HGRN
from weft.nn.recurrent.ind_rnn import IndRNN
from weft.nn.recurrent.janet import Janet
from weft.nn.recurrent.lstm import LSTM
from weft.nn.recurrent.min_gru import MinGRU
from weft.nn.recurrent.min_lstm import MinLSTM
from weft.nn.recurrent.minimal_gated import MinimalGated
from weft.nn.recurrent.mut1 import MUT1
from weft.nn.recurrent.mut2 import MUT2
from weft.nn.recurrent.mut3 import MUT3
from weft.nn.recurrent.options import check_options
from weft.nn.recurrent.own import build_own
from weft.nn.recurrent.peephole_lstm import PeepholeLSTM
from weft.nn.recurrent.projected_lstm import ProjectedLSTM
from weft.nn.recurrent.qrnn import QRNN
from weft.nn.recurrent.rg_lru import RGLRU
from weft.nn.recurrent.s_lstm import SLSTM
from weft.nn.recurrent.sru import SRU

CellClass: TypeAlias = Callable[..., Cell]
"""A class of cells, or a function that makes one: called with input_size, hidden_size and options by their names."""

CELLS: Final[dict[str, type[Cell]]] = {
    "elman": Elman,
    "lstm": LSTM,
    "peephole_lstm": PeepholeLSTM,
    "coupled_lstm": CoupledLSTM,
    "projected_lstm": ProjectedLSTM,
    "gru": GRU,
    "gru_reset_after": GRUResetAfter,
    "mut1": MUT1,
    "mut2": MUT2,
    "mut3": MUT3,
    "minimal_gated": MinimalGated,
    "janet": Janet,
    "ind_rnn": IndRNN,
    "sru": SRU,
    "qrnn": QRNN,
    "min_gru": MinGRU,
    "min_lstm": MinLSTM,
    "rg_lru": RGLRU,
    "hgrn": HGRN,
    "s_lstm": SLSTM,
}

CellChoice: TypeAlias = str | Mapping[str, Any] | Cell | Callable[[int, int], Cell]
"""A name of `CELLS`; a table of such a kind and its options, {"kind": "lstm", "forget_bias": 2.0}; a cell used as it
is; or a class or function called as `cell(input_size, hidden_size)`."""


class UnknownCell(ConfigError):
    """A name that is no cell."""

    def __init__(self, name: object, cells: Mapping[str, Any], *, where: str) -> None:
        super().__init__(f'"{name}" is not a cell', where=where, cure=did_you_mean(str(name), cells))
        self.name = name


@dataclass(frozen=True)
class ChosenCell:
    """A kind of cell with its options, checked; called with the two sizes it makes the cell."""

    kind: str
    cell: CellClass
    options: Mapping[str, Any]

    def __call__(self, input_size: int, hidden_size: int) -> Cell:
        if self.cell is not CELLS.get(self.kind):
            return build_own(self.cell, input_size, hidden_size, dict(self.options))
        return self.cell(input_size, hidden_size, **self.options)

    def tree(self) -> dict[str, Any]:
        """As a table: {"kind": …, option: value, …}."""
        return {"kind": self.kind, **self.options}


def choose_cell(choice: str | Mapping[str, Any], cells: Mapping[str, CellClass] = CELLS) -> ChosenCell:
    """The cell that a name or a table asks for, among `cells`."""
    options = {"kind": choice} if isinstance(choice, str) else dict(choice)
    where = "cell" if isinstance(choice, str) else "cell.kind"
    kind = options.pop("kind", None)
    if kind is None:
        raise ConfigError("is missing", where=where, cure=f"choose from {', '.join(cells)}")
    if not isinstance(kind, str) or kind not in cells:
        raise UnknownCell(kind, cells, where=where)
    if not callable(cells[kind]) or isinstance(cells[kind], Cell):
        what = f'"{kind}" is {type(cells[kind]).__name__}, not a class of cells'
        raise ConfigError(what, where=where, cure="give a subclass of weft.nn.Cell")
    return ChosenCell(kind, cells[kind], check_options(kind, cells[kind], options))


def build_cell(choice: CellChoice, input_size: int, hidden_size: int) -> Cell:
    """The cell that was chosen; a finished one must have these sizes already."""
    if isinstance(choice, str | Mapping):
        return choose_cell(choice)(input_size, hidden_size)
    if not isinstance(choice, Cell):
        return choice(input_size, hidden_size)
    if (choice.input_size, choice.hidden_size) != (input_size, hidden_size):
        have, want = f"{choice.input_size}, {choice.hidden_size}", f"{input_size}, {hidden_size}"
        raise ConfigError(f"a cell of sizes {have} cannot serve as one of {want}", where="cell", cure="give its sizes")
    return choice
