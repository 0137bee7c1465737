"""The kernels that torch brings for three cells: one call for all steps, on our own parameters.

Packed sequences are never used: on a CPU they lose oneDNN and are 1.5 to 2.7 times slower. The kernel runs over the
padding instead, which is exact: a step sees only earlier steps, what it writes past a row's end is dropped and so
sends no gradient back, and the last h is picked from the outputs. Only the c of an LSTM is not among them; `_hold`
keeps it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn.functional import pad

from weft.nn.attention.masks import length_mask
from weft.nn.recurrent.cell import Cell
from weft.nn.recurrent.elman import Elman
from weft.nn.recurrent.gru_reset_after import GRUResetAfter
from weft.nn.recurrent.lengths import last_steps, zero_past_end
from weft.nn.recurrent.lstm import LSTM, LSTMState
from weft.nn.state import State

CLOSED: Final = 1e4
"""A gate's argument at which σ is exactly 0 or 1 in every precision, and which half precision can still hold."""


# cuDNN copies the weights into one chunk at each call, because ours are ordinary parameters; that is cheap.
warnings.filterwarnings("ignore", message="RNN module weights are not part of single contiguous chunk")


def missing(cell: Cell) -> str:
    """Why no vendor kernel runs this cell here, or an empty string when one does."""
    if type(cell) not in KERNELS:
        return f"torch has no kernel for {type(cell).__name__}"
    if isinstance(cell, Elman) and cell.activation not in ("tanh", "relu"):
        return f"torch has no kernel for the activation {cell.activation}"
    for option, usual in (("feedback", False), ("candidate", "tanh"), ("update", "candidate")):
        if getattr(cell, option, usual) != usual:
            return f"torch has no kernel for {option} = {getattr(cell, option)}"
    weight = next(cell.parameters())
    if weight.device.type == "cpu" and weight.dtype not in (torch.float32, torch.float64):
        return f"the kernel may refuse {str(weight.dtype).removeprefix('torch.')} on a CPU"
    return ""


def run(cell: Cell, x: Tensor, state: State, lengths: Tensor | None) -> tuple[Tensor, State]:
    """x (B, T, I), state before the first step -> outputs (B, T, O), state after each row's last real step.

    x must be zero past each row's end.
    """
    kernel = KERNELS[type(cell)]
    if x.device.type != "cpu":
        return kernel(cell, x, state, lengths)
    # Autocast would hand the CPU kernel bfloat16, which oneDNN refuses on most machines.
    with torch.autocast("cpu", enabled=False):
        return kernel(cell, x.to(next(cell.parameters()).dtype), state, lengths)


def _run_elman(cell: Elman, x: Tensor, h: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
    weights = _two_biases(cell.from_input.weight, cell.from_state.weight, cell.from_input.bias)
    kernel = torch.rnn_tanh if cell.activation == "tanh" else torch.rnn_relu
    outputs, _ = kernel(x, h[None], weights, *_settings(cell))
    outputs = zero_past_end(outputs, lengths)
    return outputs, last_steps(outputs, lengths, empty=h)


def _run_gru(cell: GRUResetAfter, x: Tensor, h: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
    from_state = torch.cat((cell.gates_from_state.weight, cell.candidate_from_state.weight))
    weights = [cell.from_input.weight, from_state]
    if cell.bias:
        none = from_state.new_zeros(2 * cell.hidden_size)
        weights += [cell.from_input.bias, torch.cat((none, cell.candidate_from_state.bias))]
    weights = _side_by_side([_negate_update(part) for part in weights])
    outputs, _ = torch.gru(x, h[None], weights, *_settings(cell))
    outputs = zero_past_end(outputs, lengths)
    return outputs, last_steps(outputs, lengths, empty=h)


def _negate_update(gates: Tensor) -> Tensor:
    """Gates r, u, c with u's argument negated: σ(-a) = 1 - σ(a) is the update gate in torch's sense."""
    r, u, c = gates.chunk(3)
    return torch.cat((r, -u, c))


def _run_lstm(cell: LSTM, x: Tensor, state: LSTMState, lengths: Tensor | None) -> tuple[Tensor, LSTMState]:
    w = cell.from_input.weight
    if lengths is not None:
        x, w = _hold(x, w, lengths)
    weights = _two_biases(w, cell.from_state.weight, cell.from_input.bias)
    outputs, _, c = torch.lstm(x, (state.h[None], state.c[None]), weights, *_settings(cell))
    outputs = zero_past_end(outputs, lengths)
    return outputs, LSTMState(last_steps(outputs, lengths, empty=state.h), c[0])


def _hold(x: Tensor, w: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """One more input, 1 past a row's end, that opens the forget gate and shuts the input gate: c' = 1 ⊙ c + 0 ⊙ g.

    Both gates are saturated, so their derivative is zero and c's gradient passes the padding unchanged. On a GPU
    further inputs, all zero, make up the multiple of 128 for which cuDNN has its fastest kernel in half precision.
    """
    fill = (0, (-1 - x.size(-1)) % 128 if x.is_cuda else 0)
    past = pad((~length_mask(lengths, x.size(1)))[..., None].to(x.dtype), fill)
    hidden = w.size(0) // 4
    gates = torch.cat((w.new_full((hidden,), -CLOSED), w.new_full((hidden,), CLOSED), w.new_zeros(2 * hidden)))
    return torch.cat((x, past), dim=-1), torch.cat((w, pad(gates[:, None], fill)), dim=1)


def _two_biases(w: Tensor, u: Tensor, b: Tensor | None) -> list[Tensor]:
    """The kernels add a bias to each product, or none; ours is one, so the second stays zero."""
    return _side_by_side([w, u] if b is None else [w, u, b, torch.zeros_like(b)])


def _side_by_side(weights: list[Tensor]) -> list[Tensor]:
    """The same in one piece of memory, without which cuDNN copies them in every call and warns of it."""
    if not weights[0].is_cuda:
        return weights
    parts = torch.split(torch.cat([part.flatten() for part in weights]), [part.numel() for part in weights])
    return [part.view(like.shape) for part, like in zip(parts, weights, strict=True)]


def _settings(cell: Cell) -> tuple[bool, int, float, bool, bool, bool]:
    """has_biases, layers, dropout, train, bidirectional, batch_first.

    `train` only says whether a backward pass may follow, since no dropout happens inside.
    """
    return cell.bias, 1, 0.0, torch.is_grad_enabled(), False, True


KERNELS: Final[dict[type[Cell], Callable[[Any, Tensor, Any, Tensor | None], tuple[Tensor, Any]]]] = {
    Elman: _run_elman,
    GRUResetAfter: _run_gru,
    LSTM: _run_lstm,
}
