"""Cells that are operators of ONNX: LSTM, GRU and RNN with their activations, peepholes and coupled gates.

ONNX stacks the gates of an LSTM in the order i, o, f, g and those of a GRU in the order z, r, h, where
h' = (1 - z) ⊙ ĥ + z ⊙ h. A gate that weft writes as 1 - σ(a) is σ(-a) there. I input, H hidden.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor as Weight

from weft.nn.recurrent.coupled_lstm import CoupledLSTM
from weft.nn.recurrent.elman import Elman
from weft.nn.recurrent.gru import GRU
from weft.nn.recurrent.gru_reset_after import GRUResetAfter
from weft.nn.recurrent.lstm import LSTM
from weft.nn.recurrent.peephole_lstm import Diagonal, PeepholeLSTM

Array = NDArray[np.float32]

ACTIVATIONS: Final = {"tanh": "Tanh", "sigmoid": "Sigmoid", "relu": "Relu", "identity": "Affine"}


class Operator(NamedTuple):
    """An operator of ONNX for one direction, with its weights: W (G·H, I), R (G·H, H), B (2·G·H), P (3·H) or None."""

    name: str
    hidden: int
    activations: tuple[str, ...]
    attributes: Mapping[str, Any]
    w: Array
    r: Array
    b: Array
    p: Array | None = None

    def pairs_with(self, other: Operator) -> bool:
        """Whether another cell can be the second direction of the same operator."""
        same = (self.name, self.hidden, self.activations, dict(self.attributes), self.p is None)
        return same == (other.name, other.hidden, other.activations, dict(other.attributes), other.p is None)


def operator_of(cell: Any) -> Operator | None:
    """The operator that computes a cell; None where there is none."""
    make = OPERATORS.get(type(cell))
    return None if make is None else make(cell)


def _array(weight: Weight) -> Array:
    return np.asarray(weight.detach().float().cpu().numpy(), dtype=np.float32)


def _bias(linear: Any, size: int) -> Array:
    bias = getattr(linear, "bias", None)
    return np.zeros(size, dtype=np.float32) if bias is None else _array(bias)


def _stack(parts: Array, order: str, wanted: str, signs: str = "") -> Array:
    """Gates stacked in one order, as `wanted`; those of `signs` are negated, and - stands for a gate of zeros."""
    gates = dict(zip(order, np.split(parts, len(order)), strict=True))
    zeros = np.zeros_like(gates[order[0]])
    return np.concatenate([zeros if name == "-" else -gates[name] if name in signs else gates[name] for name in wanted])


def _lstm(cell: Any, order: str, wanted: str, *, negate: bool = False, candidate: str = "tanh") -> Operator:
    """`negate`: the first gate of ONNX is one minus the gate f."""
    size = cell.hidden_size
    w, r, b = _array(cell.from_input.weight), _array(cell.from_state.weight), _bias(cell.from_input, len(order) * size)
    stacked = [_stack(part, order, wanted) for part in (w, r, b)]
    if negate:
        stacked = [np.concatenate([-part[:size], part[size:]]) for part in stacked]
    w, r, b = stacked
    activations = ("Sigmoid", ACTIVATIONS[candidate], "Tanh")
    return Operator("LSTM", size, activations, {}, w, r, np.concatenate([b, np.zeros_like(b)]))


def _plain_lstm(cell: LSTM) -> Operator:
    return _lstm(cell, "ifgo", "iofg", candidate=cell.candidate)


def _coupled_lstm(cell: CoupledLSTM) -> Operator:
    """With input_forget the forget gate is one minus the input gate: i = 1 - σ(f) = σ(-f)."""
    return _lstm(cell, "fgo", "fo-g", negate=True)._replace(attributes={"input_forget": 1})


def _peephole_lstm(cell: PeepholeLSTM) -> Operator | None:
    """Peepholes are stacked in the order i, o, f; as matrices ONNX has none."""
    gates, output = cell.gates_from_memory, cell.output_from_memory
    if not (isinstance(gates, Diagonal) and isinstance(output, Diagonal)):
        return None
    p_i, p_f = np.split(_array(gates.weight), 2)
    return _lstm(cell, "ifgo", "iofg")._replace(p=np.concatenate([p_i, _array(output.weight), p_f]))


def _gru(cell: GRU | GRUResetAfter) -> Operator:
    """z is what stays: u itself, or 1 - u = σ(-u)."""
    size, after = cell.hidden_size, isinstance(cell, GRUResetAfter)
    negated = "u" if cell.update == "candidate" else ""
    w, b = _array(cell.from_input.weight), _bias(cell.from_input, 3 * size)
    r = np.concatenate([_array(cell.gates_from_state.weight), _array(cell.candidate_from_state.weight)])
    inner = np.concatenate([np.zeros(2 * size, dtype=np.float32), _bias(cell.candidate_from_state, size)])
    w, r, b, inner = (_stack(part, "ruc", "urc", negated) for part in (w, r, b, inner))
    activations = ("Sigmoid", ACTIVATIONS[cell.candidate])
    return Operator("GRU", size, activations, {"linear_before_reset": int(after)}, w, r, np.concatenate([b, inner]))


def _elman(cell: Elman) -> Operator | None:
    if cell.feedback:
        return None
    b, activation = _bias(cell.from_input, cell.hidden_size), ACTIVATIONS[cell.activation]
    more = {"activation_alpha": [1.0], "activation_beta": [0.0]} if activation == "Affine" else {}
    w, r = _array(cell.from_input.weight), _array(cell.from_state.weight)
    return Operator("RNN", cell.hidden_size, (activation,), more, w, r, np.concatenate([b, np.zeros_like(b)]))


OPERATORS: Final[Mapping[type, Callable[[Any], Operator | None]]] = {
    LSTM: _plain_lstm,
    CoupledLSTM: _coupled_lstm,
    PeepholeLSTM: _peephole_lstm,
    GRU: _gru,
    GRUResetAfter: _gru,
    Elman: _elman,
}
