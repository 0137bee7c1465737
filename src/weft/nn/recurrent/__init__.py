"""Recurrent networks: cells, one file each, and `RNN`, which runs any of them."""

from weft.nn.recurrent.attending import AttendingCell, Source
from weft.nn.recurrent.cell import Cell
from weft.nn.recurrent.cells import CELLS, CellChoice, CellClass, ChosenCell, UnknownCell, build_cell, choose_cell
from weft.nn.recurrent.coupled_lstm import CoupledLSTM
from weft.nn.recurrent.elman import Elman, FeedbackState
from weft.nn.recurrent.gru import GRU
from weft.nn.recurrent.gru_reset_after import GRUResetAfter
from weft.nn.recurrent.head_linear import HeadLinear
from weft.nn.recurrent.layer import slow_cells
from weft.nn.recurrent.lengths import reverse_rows
from weft.nn.recurrent.lstm import LSTM, LSTMState
from weft.nn.recurrent.mut1 import MUT1
from weft.nn.recurrent.mut2 import MUT2
from weft.nn.recurrent.mut3 import MUT3
from weft.nn.recurrent.options import Option, options_of
from weft.nn.recurrent.peephole_lstm import PeepholeLSTM
from weft.nn.recurrent.projected_lstm import ProjectedLSTM
from weft.nn.recurrent.rnn import RNN

__all__ = [
    "CELLS",
    "GRU",
    "LSTM",
    "MUT1",
    "MUT2",
    "MUT3",
    "RNN",
    "AttendingCell",
    "Cell",
    "CellChoice",
    "CellClass",
    "ChosenCell",
    "CoupledLSTM",
    "Elman",
    "FeedbackState",
    "GRUResetAfter",
    "HeadLinear",
    "LSTMState",
    "Option",
    "PeepholeLSTM",
    "ProjectedLSTM",
    "Source",
    "UnknownCell",
    "build_cell",
    "choose_cell",
    "options_of",
    "reverse_rows",
    "slow_cells",
]
