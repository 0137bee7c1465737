"""Graphs in C: every operation equals numpy's interpreter, every cell equals torch."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.export.c.graphs import CGraphs
from torch import Tensor, nn

from weft.export.c.constants import BLOCK, pack
from weft.export.c.formulas import ELEMENTWISE
from weft.export.c.source import only_used, read
from weft.export.c.statements import STATEMENTS
from weft.export.c.storage import place
from weft.export.graph import OPERATIONS, Graph, Value, lower_recurrent
from weft.export.graph.build import Builder
from weft.export.graph.evaluate import evaluate
from weft.export.graph.weights import Weights
from weft.nn import RNN, Cell
from weft.nn.recurrent import CELLS

TOLERANCE = 1e-4
LENGTHS = (1, 2, 3, 7, 16)


class Leaky(Cell):
    """A cell of a user's own: h' = h + a (tanh(W x + U h) - h), with a learned rate for each unit."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.mix = nn.Linear(input_size + hidden_size, hidden_size)
        self.rate = nn.Parameter(torch.linspace(-1, 1, hidden_size))

    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = h + torch.sigmoid(self.rate) * (torch.tanh(self.mix(torch.cat([x, h], -1))) - h)
        return h, h


class Swapping(Cell):
    """A cell of a user's own whose two states change places, with an output of another size of neither."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.a, self.b = nn.Linear(input_size, hidden_size), nn.Linear(hidden_size, hidden_size, bias=False)

    def zero_state(self, batch: int, like: Tensor) -> tuple[Tensor, Tensor]:
        zero = like.new_zeros(batch, self.hidden_size)
        return zero, zero

    def step(self, x: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        h, c = state
        new = torch.relu(self.a(x)) - torch.exp(-torch.abs(self.b(h))) * c
        return new * torch.sigmoid(c), (c, new)


def _operations(build: Builder) -> Graph:
    """A graph with every operation."""
    torch.manual_seed(0)
    weights = torch.randn
    tokens, extra = build.input("tokens", ("source",), "int"), build.input("extra", ("source", 24))
    x = build.add(build.embed(tokens, weights(50, 24)), extra)
    x = build.layer_norm(build.linear(x, weights(37, 24) / 5, weights(37)), weights(37), weights(37), 1e-5)
    x = build.linear(build.windows(x, 1, 2), weights(24, 148) / 12)
    found = {}
    for name in ("neg", "abs", "exp", "tanh", "sigmoid", "relu", "erf", "gelu", "gelu_tanh", "silu", "sin", "cos"):
        found[name] = build.unary(name, x)
    positive = build.add(build.unary("abs", x), build.number(0.5))
    found |= {name: build.unary(name, positive) for name in ("log", "sqrt")}
    for name in ("add", "sub", "mul", "div", "pow", "maximum", "minimum"):
        found[name] = build.binary(name, positive, build.constant(weights(24).abs() + 0.1))
    flags = {name: build.binary(name, x, extra) for name in ("gt", "ge", "lt", "le", "eq")}
    flag = build.binary("or", build.binary("and", flags["gt"], flags["ge"]), build.unary("not", flags["le"]))
    found["where"] = build.where(flag, x, build.number(-2.0))
    found["cast"] = build.cast(build.binary("eq", flags_to_float(build, flags["lt"]), build.number(1.0)), "float")
    places = build.positions(x)
    turned = build.rotate(build.reshape(x, ("source", 3, 8)), places, torch.rand(4))
    values = build.reshape(extra, ("source", 3, 8))
    context, shown = build.attend(turned, turned, values, scale=0.3, causal=True)
    additive, _ = build.attend(values, turned, values, weight=weights(8))
    hard, _ = build.attend(turned, values, turned, hard=True)
    found |= {"attend": context, "shown": shown, "additive": additive, "hard": hard}
    found["softmax"] = build.softmax(build.permute(context, (1, 0, 2)), 1)
    found |= {f"reduce_{name}": build.reduce(name, x, 0) for name in ("sum", "mean", "max")}
    found |= {f"cumulate_{name}": build.cumulate(name, x, 0) for name in ("sum", "max")}
    found["whole"] = build.cumulate("max", build.reduce("max", build.reshape(places, ("source", 1)), 1), 0)
    both = build.concat([x, build.reverse(x, keep=1)], 0, joined="both")
    found |= {"both": both, "first": build.first(both), "last": build.last(both), "length": build.length(both)}
    found["columns"] = build.concat([build.slice(x, 3, 9), x], -1)
    found["gather"] = build.gather(x, build.reverse(places))
    found["append"] = build.append(x, build.constant(weights(2, 24)), "now")
    picture = build.constant(weights(4, 6, 5))
    seen = build.conv2d(picture, weights(6, 4, 3, 3), weights(6), stride=2, padding=1)
    found["group_norm"] = build.group_norm(seen, weights(6), weights(6), groups=3, epsilon=1e-5)
    return build.graph(**{f"out_{name}": value for name, value in found.items()})


def flags_to_float(build: Builder, value: Value) -> Value:
    return build.cast(value, "float")


def _cells() -> dict[str, RNN]:
    torch.manual_seed(1)
    found = {}
    for kind in CELLS:
        both = kind in ("gru", "lstm")
        found[kind] = RNN(kind, 5, 6, layers=1 + both, bidirectional=both)
    found["leaky"] = RNN(Leaky(5, 6), 5, 6)
    found["swapping"] = RNN(Swapping(5, 6), 5, 6)
    for rnn in found.values():
        with torch.no_grad():
            for parameter in rnn.parameters():
                parameter.add_(0.3 * torch.randn_like(parameter))
    return {name: rnn.eval() for name, rnn in found.items()}


def _recurrence(rnn: RNN) -> Graph:
    build = Builder("recurrence", Weights())
    x = build.input("x", ("time", 5))
    output, finals = lower_recurrent.run(build, rnn, x, lower_recurrent.first_states(build, rnn))
    states = [state for layer in finals for state in layer]
    return build.graph(output=output, **{f"state_{number}": state for number, state in enumerate(states)})


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[CGraphs, list[Graph], dict[str, RNN]]:
    """One library with all graphs of this file."""
    cells = _cells()
    graphs = [_operations(Builder("operations", Weights())), *map(_recurrence, cells.values())]
    return CGraphs(graphs, tmp_path_factory.mktemp("graphs")), graphs, cells


def test_every_operation_is_written():
    assert set(OPERATIONS) == set(STATEMENTS) | ELEMENTWISE


@pytest.mark.parametrize("size", LENGTHS)
def test_operations_equal_the_interpreter(compiled, size):
    run, graphs, _ = compiled
    rng = np.random.default_rng(size)
    inputs = {"tokens": rng.integers(0, 50, size), "extra": rng.standard_normal((size, 24)).astype(np.float32)}
    expected = evaluate(graphs[0], inputs)
    found = run(0, inputs, [expected[value.name].shape for value in graphs[0].outputs])
    for value, array in zip(graphs[0].outputs, found, strict=True):
        np.testing.assert_allclose(array, expected[value.name], atol=TOLERANCE, rtol=TOLERANCE, err_msg=value.name)


@pytest.mark.parametrize("name", [*CELLS, "leaky", "swapping"])
def test_cells_equal_torch_on_50_inputs(compiled, name):
    run, graphs, cells = compiled
    number = 1 + list(cells).index(name)
    for draw in range(50):
        torch.manual_seed(draw)
        x = torch.randn(1, 1 + draw % 17, 5)
        with torch.no_grad():
            expected, _ = cells[name](x)
        shapes = [
            tuple(x.size(1) if size == "time" else size for size in value.shape) for value in graphs[number].outputs
        ]
        output, *_ = run(number, {"x": x[0].numpy()}, shapes)
        np.testing.assert_allclose(output, expected[0].numpy(), atol=TOLERANCE)


def test_packed_weights_hold_each_number_once():
    array = np.arange(37 * 5, dtype=np.float32).reshape(37, 5) + 1
    packed = pack(array)
    assert packed.shape == (3, 5, BLOCK)
    for row in range(37):
        assert (packed[row // BLOCK, :, row % BLOCK] == array[row]).all()
    assert packed.sum() == array.sum()


def test_values_that_are_needed_together_lie_apart():
    rng = np.random.default_rng(0)
    values = [
        (Value(f"v{n}", (int(rng.integers(1, 50)),)), int(a := rng.integers(0, 40)), int(a + rng.integers(0, 9)))
        for n in range(60)
    ]
    slots, found = place(values)
    assert len(slots) < len(values)
    for number, (one, first, last) in enumerate(values):
        assert one.shape in slots[found[one]].shapes
        for other, begin, end in values[:number]:
            assert found[one] != found[other] or last < begin or end < first


def test_only_functions_that_are_called_stay():
    text = """/* Unused. */
static int unused(void)
{
    return used();
}

/* Used. */
static int used(void)
{
    return 1;
}

int main(void)
{
    return 0;
}
"""
    assert "used" not in only_used(text).lower()
    assert "Used." in only_used(text.replace("return 0", "return used()"))


def test_random_numbers_are_those_of_numpy(tmp_path: Path):
    import hashlib
    import subprocess

    from weft.nn.native.compiler import find_compiler

    head = "#include <stdint.h>\n#include <string.h>\n" + read("runtime.c").split("/* CRC-32")[0]
    draws = """
void draws(uint64_t s, uint64_t k, uint64_t n, float *out, int count)
{
    weft_random r;
    weft_random_begin(&r, s, k, n);
    for (int i = 0; i < count; i++) out[i] = weft_random_next(&r);
}

uint64_t hash(const char *t, size_t n)
{
    return weft_hash(t, n);
}
"""
    (tmp_path / "random.c").write_text(only_used(head + read("random.c") + draws))
    subprocess.run(
        [*find_compiler(), "-std=c99", "-O1", "-shared", "-fPIC", "-o", "r.so", "random.c"], cwd=tmp_path, check=True
    )
    library = ctypes.CDLL(str(tmp_path / "r.so"))
    library.hash.restype = ctypes.c_uint64
    for text in (b"", b"abc", b"x" * 127, b"x" * 128, b"x" * 129, b"y" * 1000):
        key = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")
        assert library.hash(text, ctypes.c_size_t(len(text))) == key
        for seed in (0, 7, 2**40 + 3):
            found = np.zeros(50, np.float32)
            given = [ctypes.c_uint64(number) for number in (seed, key, 2)]
            library.draws(*given, found.ctypes.data_as(ctypes.c_void_p), 50)
            expected = np.random.default_rng([seed, key, 2]).random(50, dtype=np.float32)
            assert (found == expected).all()
