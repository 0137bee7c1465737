"""The plain interpreter: each operation against torch, on lengths of one and none too."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tests.export.graph.conftest import close
from torch import nn

from weft.export.graph import OPERATIONS, evaluate
from weft.export.graph.build import Builder
from weft.export.graph.graph import BINARY, COMPARE, UNARY
from weft.export.graph.weights import Weights
from weft.nn import MultiHeadAttention, attend
from weft.nn.attention.rotary import Rotary
from weft.nn.attention.scores import Additive

TORCH = {
    "not": torch.logical_not,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "gelu": F.gelu,
    "silu": F.silu,
    "relu": F.relu,
    "and": torch.logical_and,
    "or": torch.logical_or,
}
CASES = {}


def case(name, *inputs, lengths=(5, 1)):
    """Register a function (build, *values) -> (value, torch's function); inputs are shapes or (shape, kind)."""

    def register(function):
        CASES.setdefault(name, []).extend((function, inputs, length) for length in lengths)
        return function

    return register


def drawn(shape, kind, length):
    shape = [length if size == "t" else length + 2 if size == "u" else size for size in shape]
    if kind == "float":
        return torch.randn(shape).double()
    return torch.randint(4, shape) if kind == "int" else torch.rand(shape) < 0.5


for op in UNARY:
    if op == "not":
        case(op, (("t", 3), "bool"))(lambda b, x: (b.unary("not", x), torch.logical_not))
    elif op in ("log", "sqrt"):
        case(op, ("t", 3))(
            lambda b, x, op=op: (b.unary(op, b.unary("abs", x)), lambda x, op=op: getattr(torch, op)(x.abs()))
        )
    else:
        case(op, ("t", 3))(lambda b, x, op=op: (b.unary(op, x), TORCH.get(op) or getattr(torch, op)))
for op in (*BINARY, *COMPARE):
    if op in ("and", "or"):
        case(op, (("t", 3), "bool"), ((1, 3), "bool"))(lambda b, x, y, op=op: (b.binary(op, x, y), TORCH[op]))
    elif op == "pow":
        case(op, ("t", 3), (3,))(
            lambda b, x, y: (b.binary("pow", b.unary("abs", x), y), lambda x, y: torch.pow(x.abs(), y))
        )
    else:
        case(op, ("t", 3), (1, 3))(lambda b, x, y, op=op: (b.binary(op, x, y), getattr(torch, op)))
        case(op, ("t", 3), ())(lambda b, x, y, op=op: (b.binary(op, x, y), getattr(torch, op)))


@case("where", (("t", 1), "bool"), ("t", 3), (3,))
def _where(b, condition, x, y):
    return b.where(condition, x, y), torch.where


@case("cast", (("t",), "bool"))
def _cast(b, x):
    return b.cast(x, "float"), lambda x: x.double()


@case("linear", ("t", 2, 3), lengths=(5, 1, 0))
def _linear(b, x):
    map_ = nn.Linear(3, 4).double()
    return b.linear(x, map_.weight, map_.bias), map_


@case("linear", (3,))
def _row(b, x):
    map_ = nn.Linear(3, 4, bias=False).double()
    return b.linear(x, map_.weight), map_


@case("embed", (("t",), "int"), lengths=(5, 0))
def _embed(b, ids):
    table = nn.Embedding(4, 3).double()
    return b.embed(ids, table.weight), table


@case("concat", ("t", 3), ("u", 3), lengths=(5, 0))
def _concat(b, x, y):
    return b.concat([x, y], 0, joined="both"), lambda x, y: torch.cat([x, y])


@case("concat", ("t", 3), ("t", 1))
def _columns(b, x, y):
    return b.concat([x, y]), lambda x, y: torch.cat([x, y], -1)


@case("slice", ("t", 5, 2))
def _slice(b, x):
    return b.slice(x, 1, 4, 1), lambda x: x[:, 1:4]


@case("reshape", (1, 6, "t", 4, 1), lengths=(5, 0))
def _reshape(b, x):
    return b.reshape(x, (2, 3, "t", 2, 2)), lambda x: x.reshape(2, 3, x.size(2), 2, 2)


@case("permute", ("t", 2, 3))
def _permute(b, x):
    return b.permute(x, (2, 0, 1)), lambda x: x.permute(2, 0, 1)


@case("reduce", ("t", 3), lengths=(5, 1, 0))
def _reduce(b, x):
    parts = [b.reduce(function, x, 0) for function in ("sum", "mean", "max")]

    def wanted(x):
        none = torch.zeros(3).double()
        return torch.stack([x.sum(0), x.mean(0), x.amax(0)] if len(x) else [none] * 3)

    return b.concat([b.reshape(part, (1, 3)) for part in parts], 0), wanted


@case("softmax", ("t", 3), lengths=(5, 1, 0))
def _softmax(b, x):
    return b.softmax(x, 0), lambda x: x.softmax(0)


@case("cumulate", ("t", 3), lengths=(5, 1, 0))
def _cumulate(b, x):
    both = [b.cumulate(function, x, 0) for function in ("sum", "max")]
    return b.concat(both), lambda x: torch.cat([x.cumsum(0), x.cummax(0).values], -1)


@case("layer_norm", ("t", 3), lengths=(5, 0))
def _layer_norm(b, x):
    norm = nn.LayerNorm(3, eps=1e-3).double()
    nn.init.normal_(norm.weight), nn.init.normal_(norm.bias)
    return b.layer_norm(x, norm.weight, norm.bias, norm.eps), norm


@case("group_norm", (6, 4, 5))
def _group_norm(b, x):
    norm = nn.GroupNorm(2, 6, eps=1e-3).double()
    nn.init.normal_(norm.weight), nn.init.normal_(norm.bias)
    return b.group_norm(x, norm.weight, norm.bias, groups=2, epsilon=1e-3), lambda x: norm(x[None])[0]


@case("conv2d", (2, 7, 6))
def _conv2d(b, x):
    map_ = nn.Conv2d(2, 3, 3, 2, padding=1).double()
    return b.conv2d(x, map_.weight, map_.bias, stride=2, padding=1), lambda x: map_(x[None])[0]


@case("positions", ("t", 3), lengths=(5, 0))
def _positions(b, x):
    return b.positions(x), lambda x: torch.arange(len(x))


@case("length", ("t", 3), lengths=(5, 0))
def _length(b, x):
    return b.length(x), lambda x: torch.tensor(len(x))


@case("first", ("t", 3), lengths=(5, 1, 0))
def _first(b, x):
    return b.first(x), lambda x: x[0] if len(x) else torch.zeros(3)


@case("last", ("t", 3), lengths=(5, 1, 0))
def _last(b, x):
    return b.last(x), lambda x: x[-1] if len(x) else torch.zeros(3)


@case("reverse", ("t", 3), lengths=(5, 2, 1, 0))
def _reverse(b, x):
    return b.reverse(x, keep=1), lambda x: torch.cat([x[:-1].flip(0), x[-1:]])


@case("gather", ("t", 3), (("u",), "int"), lengths=(5, 4))
def _gather(b, x, places):
    return b.gather(x, places), lambda x, places: x[places]


@case("gather", ("t", 3), ((), "int"), lengths=(5, 4))
def _one(b, x, place):
    return b.gather(x, place), lambda x, place: x[place]


@case("windows", ("t", 2), lengths=(5, 1, 0))
def _windows(b, x):
    def wanted(x):
        return F.pad(x, (0, 0, 2, 1)).unfold(0, 4, 1).transpose(1, 2).flatten(1) if len(x) else x.new_zeros(0, 8)

    return b.windows(x, 2, 1), wanted


@case("rotate", ("t", 2, 6), (("t",), "int"))
def _rotate(b, x, places):
    turns = Rotary(6)
    frequencies = turns.base ** (-torch.arange(0, 6, 2, dtype=torch.float32) / 6)
    return b.rotate(x, places, frequencies), lambda x, places: turns(x, places[:, None])


def heads_first(*parts):
    return [part.transpose(0, 1) for part in parts]


@case("attend", ("t", 2, 3), ("u", 2, 3), ("u", 2, 4), lengths=(5, 1))
def _attend(b, query, keys, values):
    found = [
        b.attend(query, keys, values, scale=0.7, causal=causal, hard=hard)[0]
        for causal in (False, True)
        for hard in (False, True)
    ]

    def wanted(query, keys, values):
        parts = heads_first(query, keys, values)
        both = [
            attend(*parts, score="dot", scale=0.7, causal=causal, hard=hard).transpose(0, 1)
            for causal in (False, True)
            for hard in (False, True)
        ]
        return torch.cat(both, -1)

    return b.concat(found), wanted


@case("attend", (1, 1, 3), ("t", 1, 3), ("t", 1, 4), lengths=(5, 1, 0))
def _additive(b, query, keys, values):
    score = Additive(3, 3).double()
    context, _ = b.attend(query, keys, values, weight=score.w.weight[0])

    def wanted(query, keys, values):
        q, k, v = heads_first(query, keys, values)
        return ((torch.tanh(q[..., None, :] + k[..., None, :, :]) @ score.w.weight[0]).softmax(-1) @ v).transpose(0, 1)

    return context, wanted


@case("append", ("t", 2, 3), ("u", 2, 3), lengths=(5, 0))
def _append(b, cache, x):
    return b.append(cache, x, "now"), lambda cache, x: torch.cat([cache, x])


@case("recur", ("t", 3), (4,), lengths=(5, 1, 0))
def _recur(b, x, h):
    cell = nn.RNNCell(3, 4).double()
    step = Builder("step", b.weights, dtype="float64")
    given, state = step.input("x", (3,)), step.input("h", (4,))
    total = step.add(step.linear(given, cell.weight_ih, cell.bias_ih), step.linear(state, cell.weight_hh, cell.bias_hh))
    after = step.unary("tanh", total)
    body = step.graph(output=after, next=after)
    ahead, (last,) = b.recur(body, x, [h])
    back, (first,) = b.recur(body, x, [h], reverse=True)
    both = b.concat([ahead, back])
    ends = b.spread(b.concat([last, first]), x)

    def wanted(x, h):
        def run(rows):
            state, found = h, []
            for row in rows:
                state = cell(row, state)
                found.append(state)
            return found, state

        (ahead, last), (back, first) = run(x), run(x.flip(0))
        if not len(x):
            return torch.zeros(0, 16)
        ends = torch.cat([last, first]).expand(len(x), -1)
        return torch.cat([torch.stack(ahead), torch.stack(back[::-1]), ends], -1)

    return b.concat([both, ends]), wanted


def test_every_operation_is_here():
    assert CASES.keys() == OPERATIONS.keys()


@pytest.mark.parametrize("op", list(OPERATIONS))
def test_an_operation(op):
    for function, inputs, length in CASES[op]:
        build = Builder("one", Weights(), dtype="float64")
        kinds = [given if given and isinstance(given[-1], str) and given[-1] in ("bool", "int") else (given, "float")
                 for given in inputs]  # fmt: skip
        values = [build.input(f"x{place}", tuple(shape), kind) for place, (shape, kind) in enumerate(kinds)]
        found, wanted = function(build, *values)
        build.constant(torch.zeros((), dtype=torch.float64))
        graph = build.graph(out=build.add(found, build.number(0.0)) if found.kind == "float" else found)
        assert any(node.op == op for node in graph.nodes)
        given = [drawn(shape, kind, length) for shape, kind in kinds]
        out = evaluate(graph, {f"x{place}": array for place, array in enumerate(given)})["out"]
        with torch.no_grad():
            close(out, wanted(*given), tolerance=1e-6 if op == "rotate" else 1e-12)


def test_shapes_are_checked_while_a_graph_is_built():
    build = Builder("one", Weights())
    x, y = build.input("x", ("t", 3)), build.input("y", ("u", 3))
    for wrong in (
        lambda: build.add(x, y),
        lambda: build.linear(x, torch.zeros(2, 4)),
        lambda: build.reshape(x, (3, "t")),
        lambda: build.slice(x, 0, 1, 0),
        lambda: build.concat([x, y], 0),
        lambda: build.where(x, x, x),
        lambda: build.input("x", ()),
        lambda: build.graph(x=y),
    ):
        with pytest.raises(AssertionError):
            wrong()


def test_an_output_may_be_an_input_a_weight_or_twice_the_same():
    build = Builder("one", Weights())
    x = build.input("x", (2,))
    y = build.unary("neg", x)
    graph = build.graph(a=y, b=y, c=x, d=build.constant(torch.ones(3)))
    found = evaluate(graph, {"x": [1.0, 2.0]})
    assert {name: array.tolist() for name, array in found.items()} == {
        "a": [-1, -2],
        "b": [-1, -2],
        "c": [1, 2],
        "d": [1, 1, 1],
    }


def test_the_head_layout_is_that_of_multi_head_attention():
    model = MultiHeadAttention(6, heads=2).double()
    build = Builder("one", Weights(), dtype="float64")
    x = build.input("x", ("t", 6))
    parts = [
        build.reshape(build.slice(build.linear(x, model.joint.weight), place, place + 6), ("t", 2, 3))
        for place in (0, 6, 12)
    ]
    context, _ = build.attend(*parts, scale=model.factor)
    graph = build.graph(out=build.linear(build.reshape(context, ("t", 6)), model.output.weight))
    given = torch.randn(5, 6).double()
    with torch.no_grad():
        close(evaluate(graph, {"x": given})["out"], model(given[None])[0], tolerance=1e-12)


def test_without_wide_weights_numbers_are_float32():
    build = Builder("one", Weights())
    graph = build.graph(y=build.unary("exp", build.input("x", ("t",))))
    assert evaluate(graph, {"x": np.zeros(2)})["y"].dtype == np.float32
