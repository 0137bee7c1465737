"""The recurrent modules of torch and ours: the same outputs, states and gradients, with weights carried either way."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.testing import assert_close

from weft.errors import ConfigError
from weft.nn import RNN, CellChoice
from weft.nn.recurrent import LSTM, Elman, GRUResetAfter

LENGTHS = torch.tensor([7, 3, 5])
CLOSE = {"rtol": 1e-5, "atol": 1e-5}
# torch says so for every projected LSTM on a CPU.
pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")

MODULES: dict[str, tuple[type[nn.RNNBase], dict[str, Any]]] = {
    "lstm": (nn.LSTM, {}),
    "projected": (nn.LSTM, {"proj_size": 2}),
    "gru": (nn.GRU, {}),
    "tanh": (nn.RNN, {}),
    "relu": (nn.RNN, {"nonlinearity": "relu"}),
}
CELLS: list[CellChoice] = [
    "elman",
    {"kind": "elman", "activation": "relu"},
    "lstm",
    "projected_lstm",
    "gru_reset_after",
    {"kind": "gru_reset_after", "update": "state"},
]


def run_theirs(module: nn.RNNBase, x: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
    """x (B, T, I) -> output (B, T, D), states (layers · directions, B, H); rows end where LENGTHS says."""
    first = module.batch_first
    inputs = x if first else x.transpose(0, 1)
    packed, state = module(pack_padded_sequence(inputs, LENGTHS, batch_first=first, enforce_sorted=False))
    output, _ = pad_packed_sequence(packed, batch_first=True)
    return output, state if isinstance(state, tuple) else (state,)


def run_ours(rnn: RNN, x: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The same of ours: our nested state in torch's order."""
    output, state = rnn(x, LENGTHS)
    flat = [cell for layer in state for cell in layer] if rnn.bidirectional else state
    parts = [cell if isinstance(cell, tuple) else (cell,) for cell in flat]
    return output, tuple(torch.stack(part) for part in zip(*parts, strict=True))


def assert_same(module: nn.RNNBase, rnn: RNN) -> None:
    """Outputs, final states, and the gradients of a loss over all of them, at the inputs and at every weight matrix."""
    x = torch.randn(3, 7, module.input_size, dtype=next(module.parameters()).dtype)
    found = []
    for network, run in ((module, run_theirs), (rnn, run_ours)):
        network.zero_grad()
        inputs = x.clone().requires_grad_()
        output, states = run(network, inputs)
        parts = (output, *states)
        sum((part * torch.arange(1, part.numel() + 1).view_as(part).cos()).sum() for part in parts).backward()
        found.append((*parts, inputs.grad))
    assert_close(found[1], found[0], **CLOSE)
    for mine, its in matrices(module, rnn):
        assert_close(mine, its, **CLOSE)


def matrices(module: nn.RNNBase, rnn: RNN) -> list[tuple[Tensor, Tensor]]:
    """Gradients of the input and the recurrent matrices of ours beside torch's."""
    pairs = []
    for number, layer in enumerate(rnn.layers):
        for cell, suffix in zip(layer.cells, ("", "_reverse"), strict=False):
            w, u = (getattr(module, f"weight_{part}_l{number}{suffix}").grad.clone() for part in ("ih", "hh"))
            if isinstance(cell, GRUResetAfter):
                hidden = cell.hidden_size
                if cell.update == "candidate":
                    w[hidden : 2 * hidden] *= -1
                    u[hidden : 2 * hidden] *= -1
                mine = torch.cat((cell.gates_from_state.weight.grad, cell.candidate_from_state.weight.grad))
            else:
                mine = cell.from_state.weight.grad
            pairs += [(cell.from_input.weight.grad, w), (mine, u)]
    return pairs


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("name", MODULES)
def test_from_torch(name: str, layers: int, bidirectional: bool, bias: bool, batch_first: bool) -> None:
    torch.manual_seed(1)
    kind, options = MODULES[name]
    settings = {"num_layers": layers, "bidirectional": bidirectional, "bias": bias, "batch_first": batch_first}
    theirs = kind(4, 6, **settings, **options)
    ours = RNN.from_torch(theirs)
    assert_same(theirs, ours)
    assert_same(ours.to_torch(), ours)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_to_torch_and_back(cell: CellChoice, layers: int, bidirectional: bool) -> None:
    torch.manual_seed(2)
    ours = RNN(cell, 4, 6, layers=layers, bidirectional=bidirectional)
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    theirs = ours.to_torch()
    assert theirs.batch_first
    assert_same(theirs, ours)
    assert_same(theirs, RNN.from_torch(theirs))


def test_the_reference_agrees_as_well() -> None:
    theirs = nn.LSTM(4, 6, num_layers=2, bidirectional=True, batch_first=True)
    plain = RNN("lstm", 4, 6, layers=2, bidirectional=True, backend="reference")
    plain.load_state_dict(RNN.from_torch(theirs).state_dict())
    assert_same(theirs, plain)


def test_type_mode_and_dropout_are_kept_and_chance_is_left_alone() -> None:
    theirs = nn.GRU(4, 6, num_layers=2, dropout=0.3, dtype=torch.float64).eval()
    torch.manual_seed(0)
    ours = RNN.from_torch(theirs)
    back = ours.to_torch()
    expected = torch.randn(3)
    torch.manual_seed(0)
    assert_close(torch.randn(3), expected)
    assert {weight.dtype for weight in (*ours.parameters(), *back.parameters())} == {torch.float64}
    assert (ours.dropout.p, back.dropout) == (0.3, 0.3)
    assert not ours.training
    assert not back.training
    assert ours.train().to_torch().training


def test_the_weights_are_copies() -> None:
    theirs = nn.RNN(2, 3)
    ours = RNN.from_torch(theirs)
    before = ours.layers[0].cells[0].from_input.weight.clone()
    nn.init.zeros_(theirs.weight_ih_l0)
    assert_close(ours.layers[0].cells[0].from_input.weight, before)
    ours.to_torch().weight_ih_l0.data.zero_()
    assert_close(ours.layers[0].cells[0].from_input.weight, before)


class Doubled(LSTM):
    """A subclass, whose step is its own."""


def mixed() -> RNN:
    kinds = iter(("tanh", "relu"))
    return RNN(lambda inputs, hidden: Elman(inputs, hidden, activation=next(kinds)), 4, 4, layers=2)


@pytest.mark.parametrize(
    ("rnn", "reason"),
    [
        (RNN("gru", 4, 4), "the cell GRU"),
        (RNN("peephole_lstm", 4, 4), "the cell PeepholeLSTM"),
        (RNN(Doubled, 4, 4), "the cell Doubled"),
        (RNN({"kind": "elman", "activation": "sigmoid"}, 4, 4), 'activation = "sigmoid"'),
        (RNN({"kind": "elman", "feedback": True}, 4, 4), "feedback of the output"),
        (RNN({"kind": "lstm", "candidate": "sigmoid"}, 4, 4), 'candidate = "sigmoid"'),
        (RNN({"kind": "projected_lstm", "projection": 4}, 4, 4), "projection = 4"),
        (RNN("lstm", 4, [4, 5]), r"layers of different sizes, \[4, 5\]"),
        (mixed(), "layers of different cells"),
        (RNN("lstm", 4, 4, skip="residual"), 'skip = "residual"'),
        (RNN("lstm", 4, 4, bidirectional=True, merge="sum"), 'merge = "sum"'),
        (RNN("lstm", 4, 4, initial="learned"), 'initial = "learned"'),
        (RNN("lstm", 4, 4, initial="random"), 'initial = "random"'),
        (RNN({"kind": "gru_reset_after", "candidate": "sigmoid"}, 4, 4), 'candidate = "sigmoid"'),
    ],
)
def test_what_torch_has_no_module_for(rnn: RNN, reason: str) -> None:
    with pytest.raises(ConfigError, match=f"torch has no module with {reason}"):
        rnn.to_torch()


def test_a_module_that_is_not_recurrent() -> None:
    with pytest.raises(ConfigError, match="Linear has no counterpart in weft"):
        RNN.from_torch(nn.Linear(2, 3))
