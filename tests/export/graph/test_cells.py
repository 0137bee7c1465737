"""Cells as graphs: the catalog with its options, cells of users, and what is refused."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F
from tests.export.graph.conftest import Reader, close, spread
from torch import nn

from weft.catalog import CELLS
from weft.errors import ConfigError
from weft.export.graph import evaluate, program_of_model
from weft.export.graph.cell import lower_cell
from weft.export.graph.weights import Weights
from weft.models import RecurrentLanguageConfig, build_language_model
from weft.nn import Cell, choose_cell
from weft.nn.recurrent.elman import ACTIVATIONS
from weft.nn.state import leaves_of, map_state

OPTIONS = {
    "elman": [{"activation": name} for name in ACTIVATIONS] + [{"feedback": True}],
    "lstm": [{"candidate": "sigmoid"}, {"forget_bias": 3.0}],
    "peephole_lstm": [{"peepholes": "full"}, {"forget_bias": 3.0}],
    "projected_lstm": [{"projection": 3}],
    "gru": [{"update": "state"}, {"candidate": "sigmoid"}],
    "janet": [{"beta": 0.3}],
    "ind_rnn": [{"activation": name} for name in ("tanh", "sigmoid", "identity")],
    "sru": [{"state_in_gates": False}, {"highway_bias": -2.0}],
    "qrnn": [{"window": 1}, {"window": 3}],
    "min_gru": [{"candidate": "positive"}, {"candidate": "tanh"}],
    "min_lstm": [{"candidate": "positive"}, {"normalise": False}],
    "hgrn": [{"lower_bound": 0.3}],
    "s_lstm": [{"heads": 5}, {"forget": "exponential"}],
}


def check(cell, *, tolerance=1e-9):
    """One step on rows of numbers, against the body of the loop on each of them."""
    spread(cell).double()
    graph = lower_cell(cell, Weights())
    x = torch.randn(3, cell.input_size).double()
    state = map_state(torch.randn_like, cell.zero_state(3, x))
    with torch.no_grad():
        output, after = cell.step(x, state)
    for row in range(3):
        given = {f"state_{number}": part[row] for number, part in enumerate(leaves_of(state))}
        found = evaluate(graph, {"x": x[row], **given})
        for one, wanted in zip(found.values(), (output, *leaves_of(after)), strict=True):
            close(one, wanted[row], tolerance=tolerance)
    return graph


def cells():
    for name in CELLS:
        for options, bias, size in itertools.product([{}, *OPTIONS.get(name, [])], (True, False), (3, 5)):
            if bias or not {"forget_bias", "highway_bias"} & options.keys():
                yield pytest.param(name, {**options, "bias": bias}, size)


@pytest.mark.parametrize(("name", "options", "size"), list(cells()))
def test_a_cell_of_the_catalog(name, options, size):
    check(choose_cell({"kind": name, **options})(size, 5))


class Blocks(Cell):
    """Block-diagonal weights, normalised heads, and outputs that are not the state."""

    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size)
        self.output_size = 3
        self.into, self.norm = nn.Linear(input_size, 2 * hidden_size), nn.LayerNorm(hidden_size // 2)
        self.blocks = nn.Parameter(torch.randn(2, hidden_size // 2, hidden_size // 2) * 0.1)
        self.out = nn.Linear(hidden_size, 3, bias=False)
        self.register_buffer("decay", torch.linspace(0.1, 0.9, hidden_size))

    def step(self, x, h):
        gate, candidate = self.into(x).chunk(2, -1)
        heads = h.view(h.size(0), 2, -1)
        mixed = torch.einsum("bhi,hij->bhj", self.norm(heads), self.blocks).flatten(1)
        gate = F.softmax(gate.view(-1, 2, h.size(1) // 2), dim=1).reshape(h.shape)
        h = self.decay * h + gate * torch.tanh(candidate + mixed)
        return self.out(torch.where(h > 0, h, 0.1 * h)), h


class FastWeights(Cell):
    """A matrix of fast weights as its state, read and written by outer products."""

    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size)
        self.size = 3
        self.keys = nn.Linear(input_size, 3 * self.size)
        self.output_size = self.size

    def zero_state(self, batch, like):
        return like.new_zeros(batch, self.size**2)

    def step(self, x, state):
        key, value, query = self.keys(x).split(self.size, dim=1)
        memory = state.unflatten(1, (self.size, self.size))
        key = F.normalize(F.elu(key) + 1, dim=-1)
        memory = 0.9 * memory + key[:, :, None] * value[:, None]
        read = torch.bmm(query.unsqueeze(1), memory).squeeze(1)
        return read, memory.flatten(1)


class Everything(Cell):
    """Many of torch's elementwise functions."""

    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size)
        self.map = nn.Linear(input_size, hidden_size)
        self.scale = nn.Parameter(torch.ones(1, hidden_size))
        self.register_buffer("order", torch.arange(hidden_size).flip(0))

    def step(self, x, h):
        y = self.map(x)
        functions = (
            torch.relu,
            F.gelu,
            F.silu,
            F.softplus,
            F.elu,
            F.leaky_relu,
            F.hardtanh,
            F.hardsigmoid,
            F.hardswish,
            F.logsigmoid,
            F.mish,
            torch.sin,
            torch.cos,
            torch.abs,
            torch.sign,
            torch.square,
            torch.erf,
        )
        total = sum(function(y) for function in functions) * self.scale
        total = total + torch.lerp(h, y, 0.3) + torch.addcmul(h, y, y, value=0.5) - y.clamp(-0.5, 0.7)
        total = total + (y.exp() + 1).log() + (y * y + 1).rsqrt() + 1 / (2 + y.abs()) + y.abs().add(1).pow(1.5)
        total = total + torch.maximum(h, y) + torch.minimum(h, y) * (y > h) + y.masked_fill(y < 0, 0.25)
        total = total + y.roll(1, 1) + y.flip(1) + y[:, ::2].sum(1, keepdim=True) + y.mean(1, keepdim=True)
        total = total + y.amax(1, keepdim=True) + torch.stack([y, h], 1).amin(1) + y.log_softmax(-1)
        total = total + torch.cat([y[:, 1:], h[:, :1]], 1) + (1 - h) * torch.ones_like(h) + y[:, self.order]
        return torch.tanh(total), torch.tanh(total)


@pytest.mark.parametrize("cell", [Blocks, FastWeights, Everything])
def test_a_cell_of_a_user(cell):
    check(cell(3, 6))
    config = RecurrentLanguageConfig(
        cell=choose_cell("own", {"own": cell}), embedding=4, hidden=6, layers=2, tie=False, dropout=0.0
    )
    model = spread(build_language_model(config, 11)).double()
    program, tokens = program_of_model(model), torch.randint(11, (1, 7))
    with torch.no_grad():
        wanted = model.output(model(tokens))[0]
    close(Reader(program).read(tokens[0]), wanted, tolerance=1e-6)
    close(Reader(program).steps(tokens[0]), wanted, tolerance=1e-6)


class Started(Cell):
    """A state that is not zero before the first step."""

    def zero_state(self, batch, like):
        return like.new_ones(batch, self.hidden_size)

    def step(self, x, h):
        h = 0.5 * h
        return h, h


@pytest.mark.parametrize("initial", ["zeros", "learned"])
def test_a_first_state_of_its_own(initial):
    cell = choose_cell("own", {"own": Started})
    config = RecurrentLanguageConfig(cell=cell, embedding=4, hidden=3, initial=initial, tie=False, dropout=0.0)
    model = spread(build_language_model(config, 11)).double()
    tokens = torch.randint(11, (1, 4))
    with torch.no_grad():
        wanted = model.output(model(tokens))[0]
    close(Reader(program_of_model(model)).read(tokens[0]), wanted, tolerance=1e-9)


class Noisy(Cell):
    def step(self, x, h):
        return h + torch.randn_like(h), h


class Branching(Cell):
    def step(self, x, h):
        return (h, h) if h.sum() > 0 else (-h, h)


class Mixing(Cell):
    def step(self, x, h):
        h = h - h.mean(0, keepdim=True)
        return h, h


class Sorting(Cell):
    def step(self, x, h):
        return h.sort(1).values, h


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        (Noisy, r"it draws random numbers \(randn_like\)"),
        (Branching, "what it does depends on the values of a tensor"),
        (Mixing, "mean mixes the rows of a batch"),
        (Sorting, "torch's sort has no counterpart in a graph"),
    ],
)
def test_a_cell_that_has_no_graph_says_why(cell, reason):
    with pytest.raises(ConfigError, match=f"^cell: the cell {cell.__name__} cannot be written as a graph: {reason}"):
        lower_cell(cell(3, 3), Weights())
