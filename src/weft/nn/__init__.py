"""The parts that networks are made of."""

from weft.nn.attention import SCORES, KeysValues, MultiHeadAttention, Score, attend, causal_mask, length_mask
from weft.nn.dropout import Dropout, TimeDropout
from weft.nn.nonlocal_block import NonLocal
from weft.nn.packing import Packing
from weft.nn.pooling import POOLINGS, AttentionPooling, Pooling
from weft.nn.positions import POSITIONS
from weft.nn.recurrent import (
    CELLS,
    RNN,
    AttendingCell,
    Cell,
    CellChoice,
    CellClass,
    ChosenCell,
    HeadLinear,
    Source,
    UnknownCell,
    choose_cell,
    options_of,
    reverse_rows,
)
from weft.nn.state import Shared, State, detach, leaves_of, map_state, select_rows
from weft.nn.transformer import NORMS, DecoderBlock, DecoderStack, EncoderBlock, EncoderStack, FeedForward

__all__ = [
    "CELLS",
    "NORMS",
    "POOLINGS",
    "POSITIONS",
    "RNN",
    "SCORES",
    "AttendingCell",
    "AttentionPooling",
    "Cell",
    "CellChoice",
    "CellClass",
    "ChosenCell",
    "DecoderBlock",
    "DecoderStack",
    "Dropout",
    "EncoderBlock",
    "EncoderStack",
    "FeedForward",
    "HeadLinear",
    "KeysValues",
    "MultiHeadAttention",
    "NonLocal",
    "Packing",
    "Pooling",
    "Score",
    "Shared",
    "Source",
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
