"""Recurrences written as ONNX give what weft's RNN gives: every cell with its options, padded in a batch and alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

pytest.importorskip("onnxruntime", reason="needs weft[onnx]")
pytest.importorskip("onnx", reason="needs weft[onnx]")

from tests.export.onnx.written import batch, session

from weft.export.graph.build import Builder
from weft.export.graph.graph import Graph
from weft.export.graph.lower_recurrent import first_states, run
from weft.export.graph.weights import Weights
from weft.nn import RNN, Cell
from weft.nn.recurrent import CELLS
from weft.nn.state import leaves_of

INPUT, HIDDEN, LENGTHS = 4, 6, (5, 1, 8, 3)

OPERATORS: dict[str, list[Any]] = {
    "LSTM": [
        "lstm",
        {"kind": "lstm", "candidate": "sigmoid"},
        {"kind": "lstm", "bias": False},
        "coupled_lstm",
        "peephole_lstm",
    ],
    "GRU": [
        "gru",
        {"kind": "gru", "update": "state"},
        {"kind": "gru", "candidate": "sigmoid"},
        "gru_reset_after",
        {"kind": "gru_reset_after", "update": "state", "bias": False},
    ],
    "RNN": [{"kind": "elman", "activation": name} for name in ("tanh", "relu", "sigmoid", "identity")],
}
"""Cells by the operator of ONNX that computes them."""


class Forgetful(Cell):
    """A user's cell: an exponential mean of a gated input, with a clock in its state."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.gate, self.value = nn.Linear(input_size, hidden_size), nn.Linear(input_size + hidden_size, hidden_size)

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        gate = torch.sigmoid(self.gate(x))
        state = (1 - gate) * state + gate * torch.tanh(self.value(torch.cat([x, state], dim=-1)))
        return torch.relu(state) - 0.1 * state, state


class TwoStates(Cell):
    """A user's cell with two states, of which one only adds up."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.inner = nn.Linear(input_size, hidden_size)

    def step(self, x: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        total, last = state
        now = self.inner(x)
        return torch.tanh(now + last * 0.5) + total, (total * 0.9 + now, torch.softmax(now, -1))

    def zero_state(self, batch: int, like: Tensor) -> tuple[Tensor, Tensor]:
        zero = like.new_zeros(batch, self.hidden_size)
        return zero, zero + 1


LOOPS = [
    {"kind": "peephole_lstm", "peepholes": "full"},
    {"kind": "elman", "feedback": True},
    "projected_lstm",
    "mut1",
    "mut2",
    "mut3",
    "minimal_gated",
    "janet",
    "ind_rnn",
    "sru",
    {"kind": "sru", "state_in_gates": False},
    "qrnn",
    {"kind": "qrnn", "window": 3},
    {"kind": "qrnn", "window": 1},
    "min_gru",
    {"kind": "min_gru", "candidate": "positive"},
    "min_lstm",
    {"kind": "min_lstm", "normalise": False},
    "rg_lru",
    "hgrn",
    {"kind": "hgrn", "lower_bound": 0.3},
    "s_lstm",
    {"kind": "s_lstm", "heads": 2},
    {"kind": "s_lstm", "forget": "exponential"},
    Forgetful,
    TwoStates,
]
EVERY = [*(choice for choices in OPERATORS.values() for choice in choices), *LOOPS]


def graph_of(rnn: RNN, *, time: str = "source") -> Graph:
    build = Builder("graph", Weights())
    outputs, finals = run(build, rnn, build.input("x", (time, INPUT)), first_states(build, rnn))
    ends = {f"state_{number}": value for number, value in enumerate(one for layer in finals for one in layer)}
    return build.graph(y=outputs, **ends)


def build_rnn(choice: Any, **options: Any) -> RNN:
    torch.manual_seed(0)
    rnn = RNN(choice, INPUT, HIDDEN, backend="reference", **options).eval()
    with torch.no_grad():
        for parameter in rnn.parameters():
            parameter.uniform_(-0.6, 0.6)
    return rnn


def assert_like(rnn: RNN, *, ragged: bool = True) -> None:
    graph = graph_of(rnn)
    lengths = LENGTHS if ragged else (4, 4)
    rows = [{"x": torch.randn(length, INPUT).numpy()} for length in lengths]
    axes = ["source"] if ragged else []
    run = session(graph, ragged=axes)
    for part in (rows, *([row] for row in rows)):
        found, *states = run.run(None, batch(graph, part, axes))
        for number, row in enumerate(part):
            with torch.no_grad():
                wanted, after = rnn(torch.from_numpy(row["x"])[None])
            np.testing.assert_allclose(found[number, : len(row["x"])], wanted[0], atol=2e-5)
            leaves = list(leaves_of(after))
            for state, leaf in zip(states, leaves, strict=True):
                np.testing.assert_allclose(state[number], leaf[0], atol=2e-5)


def ops(graph: Graph) -> set[str]:
    from weft.export.onnx.scope import Weights as Arrays
    from weft.export.onnx.writer import write_graph

    return {node.op_type for node in write_graph(graph, Arrays(), ["source"])[0].graph.node}


@pytest.mark.parametrize("choice", EVERY, ids=str)
def test_a_cell_gives_what_the_rnn_gives(choice: Any) -> None:
    assert_like(build_rnn(choice))
    assert_like(build_rnn(choice), ragged=False)


@pytest.mark.parametrize("choice", EVERY, ids=str)
def test_two_directions_and_layers(choice: Any) -> None:
    assert_like(build_rnn(choice, bidirectional=True, layers=2))


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_cell_that_is_an_operator_is_written_as_one(operator: str) -> None:
    for choice in OPERATORS[operator]:
        found = ops(graph_of(build_rnn(choice, bidirectional=True)))
        assert operator in found
        assert not found & {"Scan", "Loop", "Concat", "MatMul"}


def test_every_cell_of_the_catalog_is_tested() -> None:
    names = [choice["kind"] if isinstance(choice, dict) else choice for choice in EVERY]
    assert set(CELLS) <= set(names)


@pytest.mark.parametrize("choice", ["lstm", "mut1", TwoStates], ids=str)
def test_learned_first_states(choice: Any) -> None:
    rnn = build_rnn(choice, initial="learned")
    assert_like(rnn)


def test_products_with_the_input_stand_before_the_loop() -> None:
    from weft.export.onnx.scope import Weights as Arrays
    from weft.export.onnx.writer import write_graph

    model, _ = write_graph(graph_of(build_rnn("mut1")), Arrays(), ["source"])
    (scan,) = (node for node in model.graph.node if node.op_type == "Scan")
    (body,) = (attribute.g for attribute in scan.attribute if attribute.name == "body")
    inside = sum(node.op_type in ("Gemm", "MatMul") for node in body.node)
    outside = sum(node.op_type in ("Gemm", "MatMul") for node in model.graph.node)
    (cell,) = (one for one in build_rnn("mut1").modules() if isinstance(one, CELLS["mut1"]))
    of_state = [name for name, part in cell.named_modules() if isinstance(part, nn.Linear)]
    assert outside > 0
    assert 0 < inside < len(of_state) + outside
