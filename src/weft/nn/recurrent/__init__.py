"""Recurrent networks: cells, one file each, and `RNN`, which runs any of them."""

from weft.nn.recurrent.cell import Cell
from weft.nn.recurrent.cells import CELLS, CellChoice, build_cell
from weft.nn.recurrent.elman import Elman
from weft.nn.recurrent.gru import GRU
from weft.nn.recurrent.gru_reset_after import GRUResetAfter
from weft.nn.recurrent.lengths import reverse_rows
from weft.nn.recurrent.lstm import LSTM, LSTMState
from weft.nn.recurrent.rnn import RNN

__all__ = [
    "CELLS",
    "GRU",
    "LSTM",
    "RNN",
    "Cell",
    "CellChoice",
    "Elman",
    "GRUResetAfter",
    "LSTMState",
    "build_cell",
    "reverse_rows",
]
