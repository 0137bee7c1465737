"""The recurrent modules of torch and ours: the same numbers with the weights of the other.

    torch                                             weft
    nn.RNN                                            elman with activation tanh or relu
    nn.LSTM, with proj_size                           lstm, projected_lstm
    nn.GRU                                            gru_reset_after

torch adds two biases at every gate, b and d, or none: ours is their sum, and on the way back d is zero. Only the
candidate of a GRU keeps both, because the reset gate stands between them. torch's update gate keeps the old state, ours
takes the new one; σ(-a) = 1 - σ(a), so its weights change their sign.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor, nn

from weft.errors import ConfigError
from weft.nn.recurrent.cell import Cell
from weft.nn.recurrent.elman import Elman
from weft.nn.recurrent.gru_reset_after import GRUResetAfter
from weft.nn.recurrent.layer import Layer
from weft.nn.recurrent.lstm import LSTM
from weft.nn.recurrent.projected_lstm import ProjectedLSTM

if TYPE_CHECKING:
    from weft.nn.recurrent.rnn import RNN

MODULES: Final[dict[type[Cell], Callable[..., nn.RNNBase]]] = {
    Elman: nn.RNN,
    LSTM: nn.LSTM,
    ProjectedLSTM: nn.LSTM,
    GRUResetAfter: nn.GRU,
}

DIRECTIONS: Final = ("", "_reverse")
"""Endings of torch's names of weights, by direction."""


def settings_of(module: nn.RNNBase) -> dict[str, Any]:
    """Settings of an `RNN` that computes the same as the module."""
    if not isinstance(module, nn.RNN | nn.LSTM | nn.GRU):
        name = type(module).__name__
        raise ConfigError(
            f"{name} has no counterpart in weft", where="module", cure="give an nn.RNN, nn.LSTM or nn.GRU"
        )
    cell: dict[str, Any] = {"kind": "gru_reset_after"}
    if isinstance(module, nn.LSTM):
        cell = {"kind": "projected_lstm", "projection": module.proj_size} if module.proj_size else {"kind": "lstm"}
    elif isinstance(module, nn.RNN):
        cell = {"kind": "elman", "activation": module.nonlinearity}
    return {
        "cell": cell if module.bias else {**cell, "bias": False},
        "input_size": module.input_size,
        "hidden_size": module.hidden_size,
        "layers": module.num_layers,
        "bidirectional": module.bidirectional,
        "dropout": float(module.dropout),
    }


@torch.no_grad()
def copy_from(module: nn.RNNBase, rnn: RNN) -> None:
    """Fill a network that was built by `settings_of` with the weights of the module."""
    for cell, suffix in _cells(rnn):
        hidden = cell.hidden_size
        w, u = (getattr(module, f"weight_{part}_{suffix}") for part in ("ih", "hh"))
        zeros = w.new_zeros(w.size(0))
        b, d = (getattr(module, f"bias_{part}_{suffix}") if module.bias else zeros for part in ("ih", "hh"))
        if isinstance(cell, GRUResetAfter):
            w, u, b, d = (_negate_update(part) for part in (w, u, b, d))
            cell.gates_from_state.weight.copy_(u[: 2 * hidden])
            cell.candidate_from_state.weight.copy_(u[2 * hidden :])
            if cell.bias:
                cell.candidate_from_state.bias.copy_(d[2 * hidden :])
            d = torch.cat((d[: 2 * hidden], zeros[:hidden]))
        else:
            assert isinstance(cell, Elman | LSTM | ProjectedLSTM)
            cell.from_state.weight.copy_(u)
        if isinstance(cell, ProjectedLSTM):
            cell.project.weight.copy_(getattr(module, f"weight_hr_{suffix}"))
        cell.from_input.weight.copy_(w)
        if cell.bias:
            cell.from_input.bias.copy_(b + d)


def to_torch(rnn: RNN) -> nn.RNNBase:
    """A module of torch, batch first, that computes what the network does; a ConfigError where torch has none."""
    if reason := _missing(rnn):
        cure = "it has plain stacks of elman, lstm, projected_lstm and gru_reset_after"
        raise ConfigError(f"torch has no module with {reason}", where="to_torch", cure=cure)
    cell, _ = next(_cells(rnn))
    options: dict[str, Any] = {"nonlinearity": cell.activation} if isinstance(cell, Elman) else {}
    if isinstance(cell, ProjectedLSTM):
        options = {"proj_size": cell.output_size}
    weight = next(rnn.parameters())
    module = MODULES[type(cell)](
        cell.input_size,
        cell.hidden_size,
        num_layers=len(rnn.layers),
        bidirectional=rnn.bidirectional,
        dropout=rnn.dropout.p if len(rnn.layers) > 1 else 0.0,
        batch_first=True,
        bias=cell.bias,
        dtype=weight.dtype,
        device="meta",
        **options,
    ).to_empty(device=weight.device)
    copy_to(module, rnn)
    return module.train(rnn.training)


@torch.no_grad()
def copy_to(module: nn.RNNBase, rnn: RNN) -> None:
    """Fill a module that was built by `to_torch` with the weights of the network."""
    for cell, suffix in _cells(rnn):
        for part, values in _weights(cell).items():
            getattr(module, f"{part}_{suffix}").copy_(values)


def _weights(cell: Cell) -> dict[str, Tensor]:
    """The weights of one cell by the names and in the order of gates that torch has for them."""
    assert isinstance(cell, Elman | LSTM | ProjectedLSTM | GRUResetAfter)
    w, b = cell.from_input.weight, cell.from_input.bias
    biases = {"bias_ih": b, "bias_hh": torch.zeros_like(b)} if cell.bias else {}
    if not isinstance(cell, GRUResetAfter):
        found = {"weight_ih": w, "weight_hh": cell.from_state.weight, **biases}
        return found | ({"weight_hr": cell.project.weight} if isinstance(cell, ProjectedLSTM) else {})
    u = torch.cat((cell.gates_from_state.weight, cell.candidate_from_state.weight))
    if cell.bias:
        biases["bias_hh"][2 * cell.hidden_size :] = cell.candidate_from_state.bias
    found = {"weight_ih": w, "weight_hh": u, **biases}
    return {name: _negate_update(part) if cell.update == "candidate" else part for name, part in found.items()}


def _missing(rnn: RNN) -> str:
    """Why no module of torch computes what the network does, or an empty string when one does."""
    cells = [cell for cell, _ in _cells(rnn)]
    if reason := next(filter(None, map(_missing_cell, cells)), ""):
        return reason
    sizes = [(cell.hidden_size, cell.output_size) for cell in cells]
    layers = [layer for layer in rnn.layers if isinstance(layer, Layer)]
    if len(set(sizes)) > 1:
        return f"layers of different sizes, {[hidden for hidden, _ in sizes]}"
    if len({(type(cell), getattr(cell, "activation", None), cell.bias) for cell in cells}) > 1:
        return "layers of different cells"
    if rnn.skip != "none":
        return f'skip = "{rnn.skip}"'
    if rnn.bidirectional and layers[0].merge != "concat":
        return f'merge = "{layers[0].merge}"'
    if layers[0].initial_std:
        return 'initial = "random"'
    return 'initial = "learned"' if layers[0].initial is not None else ""


def _missing_cell(cell: Cell) -> str:
    """Why torch does not know this cell. A subclass may have another step, so only the classes themselves count."""
    if type(cell) not in MODULES:
        return f"the cell {type(cell).__name__}"
    if isinstance(cell, Elman) and cell.activation not in ("tanh", "relu"):
        return f'activation = "{cell.activation}"'
    if isinstance(cell, Elman) and cell.feedback:
        return "feedback of the output"
    if isinstance(cell, LSTM | GRUResetAfter) and cell.candidate != "tanh":
        return f'candidate = "{cell.candidate}"'
    if isinstance(cell, ProjectedLSTM) and cell.output_size >= cell.hidden_size:
        return f"projection = {cell.output_size}, which is not below the hidden size"
    return ""


def _cells(rnn: RNN) -> Iterator[tuple[Cell, str]]:
    """Every cell with the end of its weights' names in torch."""
    for number, layer in enumerate(rnn.layers):
        assert isinstance(layer, Layer)
        for cell, direction in zip(layer.cells, DIRECTIONS, strict=False):
            assert isinstance(cell, Cell)
            yield cell, f"l{number}{direction}"


def _negate_update(gates: Tensor) -> Tensor:
    """Gates r, u, c with the sign of u's changed."""
    r, u, c = gates.chunk(3)
    return torch.cat((r, -u, c))
