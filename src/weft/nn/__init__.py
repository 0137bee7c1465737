"""The parts that networks are made of."""

from weft.nn.attention import SCORES, Score, attend, causal_mask, length_mask
from weft.nn.dropout import TimeDropout
from weft.nn.pooling import POOLINGS, Pooling
from weft.nn.recurrent import (
    CELLS,
    RNN,
    Cell,
    CellChoice,
    CellClass,
    ChosenCell,
    UnknownCell,
    choose_cell,
    options_of,
    reverse_rows,
)
from weft.nn.state import Shared, State, detach, leaves_of, map_state, select_rows

__all__ = [
    "CELLS",
    "POOLINGS",
    "RNN",
    "SCORES",
    "Cell",
    "CellChoice",
    "CellClass",
    "ChosenCell",
    "Pooling",
    "Score",
    "Shared",
    "State",
    "TimeDropout",
    "UnknownCell",
    "attend",
    "causal_mask",
    "choose_cell",
    "detach",
    "leaves_of",
    "length_mask",
    "map_state",
    "options_of",
    "reverse_rows",
    "select_rows",
]
