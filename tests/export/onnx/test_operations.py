"""Every operation of a graph, written as ONNX, gives what the plain interpreter gives: rows padded in a batch, and
alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

pytest.importorskip("onnxruntime", reason="needs weft[onnx]")
pytest.importorskip("onnx", reason="needs weft[onnx]")

from tests.export.onnx.written import assert_same

from weft.export.graph import OPERATIONS, Value
from weft.export.graph.build import Builder
from weft.export.graph.weights import Weights
from weft.export.onnx.attention import MAX_HEADS_AS_BLOCKS

D, H, L = 6, 2, (4, 1, 7, 2)
MANY = MAX_HEADS_AS_BLOCKS + 1
draw = np.random.default_rng(0)


def numbers(*shape: int) -> torch.Tensor:
    return torch.from_numpy(draw.standard_normal(shape).astype(np.float32))


def start(axis: str = "source") -> tuple[Builder, Value]:
    build = Builder("graph", Weights())
    return build, build.input("x", (axis, D))


def rows(*lengths: int) -> list[dict[str, np.ndarray]]:
    return [{"x": draw.standard_normal((length, D)).astype(np.float32)} for length in lengths]


def heads(build: Builder, x: Value) -> Value:
    return build.reshape(x, (x.shape[0], H, D // H))


def many_heads(build: Builder, x: Value) -> Value:
    return build.reshape(build.linear(x, numbers(2 * MANY, D)), (x.shape[0], MANY, 2))


CASES: dict[str, Callable[[Builder, Value], Value]] = {
    "log": lambda b, x: b.unary("log", b.add(b.unary("abs", x), b.number(1.0))),
    "sqrt": lambda b, x: b.unary("sqrt", b.unary("abs", x)),
    "not": lambda b, x: b.where(b.unary("not", b.binary("gt", x, b.number(0.0))), x, b.number(2.0)),
    "add": lambda b, x: b.add(b.reduce("mean", x, 0), b.add(x, b.constant(numbers(D)))),
    "sub": lambda b, x: b.binary("sub", b.constant(numbers(D)), x),
    "mul": lambda b, x: b.mul(x, b.reduce("sum", x, 0)),
    "div": lambda b, x: b.binary("div", x, b.number(3.0)),
    "pow": lambda b, x: b.binary("pow", b.unary("abs", x), b.number(1.5)),
    "maximum": lambda b, x: b.binary("maximum", x, b.number(0.1)),
    "minimum": lambda b, x: b.binary("minimum", x, b.constant(numbers(D))),
    "and": lambda b, x: b.cast(
        b.binary("and", b.binary("gt", x, b.number(-1.0)), b.binary("lt", x, b.number(1.0))), "float"
    ),
    "or": lambda b, x: b.cast(
        b.binary("or", b.binary("ge", x, b.number(1.0)), b.binary("le", x, b.number(-1.0))), "float"
    ),
    "eq": lambda b, x: b.where(b.binary("eq", b.positions(x), b.whole(1)), b.reduce("sum", x, 1), b.number(0.0)),
    "where": lambda b, x: b.where(b.binary("gt", x, b.number(0.0)), x, b.constant(numbers(D))),
    "cast": lambda b, x: b.cast(b.positions(x), "float"),
    "linear": lambda b, x: b.linear(b.linear(x, numbers(5, D), numbers(5)), numbers(3, 5)),
    "linear of one": lambda b, x: b.linear(b.last(x), numbers(5, D), numbers(5)),
    "embed": lambda b, x: b.embed(b.positions(x), numbers(9, 4)),
    "concat": lambda b, x: b.concat([x, b.linear(x, numbers(2, D))]),
    "concat of rows": lambda b, x: b.concat([b.constant(numbers(2, D)), x, x], 0, joined="joined"),
    "reduce joined": lambda b, x: b.reduce("mean", b.concat([x, b.constant(numbers(1, D))], 0, joined="joined"), 0),
    "slice": lambda b, x: b.slice(x, 1, 4),
    "reshape": lambda b, x: b.permute(heads(b, x), (1, 0, 2)),
    "permute": lambda b, x: b.reshape(b.permute(heads(b, x), (0, 2, 1)), ("source", D)),
    "sum": lambda b, x: b.reduce("sum", x, 0),
    "mean": lambda b, x: b.reduce("mean", x, 0),
    "mean of features": lambda b, x: b.reduce("mean", x, 1),
    "max": lambda b, x: b.reduce("max", x, 0),
    "max in the middle": lambda b, x: b.reduce("max", b.permute(heads(b, x), (1, 0, 2)), 1),
    "softmax": lambda b, x: b.softmax(x, 0),
    "softmax of features": lambda b, x: b.softmax(x),
    "softmax in the middle": lambda b, x: b.softmax(b.permute(heads(b, x), (1, 0, 2)), 1),
    "cumulate": lambda b, x: b.cumulate("sum", x, 0),
    "running maximum": lambda b, x: b.cumulate("max", x, 0),
    "running maximum in the middle": lambda b, x: b.cumulate("max", b.permute(heads(b, x), (1, 0, 2)), 1),
    "layer_norm": lambda b, x: b.layer_norm(x, numbers(D), numbers(D), 1e-5),
    "positions": lambda b, x: b.positions(x),
    "length": lambda b, x: b.length(x),
    "first": lambda b, x: b.first(x),
    "last": lambda b, x: b.last(x),
    "reverse": lambda b, x: b.reverse(x),
    "reverse but one": lambda b, x: b.reverse(x, keep=1),
    "gather": lambda b, x: b.gather(x, b.binary("sub", b.binary("sub", b.length(x), b.whole(1)), b.positions(x))),
    "gather one": lambda b, x: b.gather(x, b.binary("sub", b.length(x), b.whole(1))),
    "gather of a table": lambda b, x: b.gather(b.constant(numbers(9, D)), b.positions(x)),
    "windows": lambda b, x: b.windows(x, 2, 1),
    "rotate": lambda b, x: b.rotate(b.reshape(x, ("source", 1, D)), b.positions(x), numbers(D // 2)),
    "attend": lambda b, x: b.attend(*[heads(b, b.linear(x, numbers(D, D))) for _ in range(3)], scale=0.3)[0],
    "attend to the past": lambda b, x: b.attend(*[heads(b, x)] * 3, scale=0.3, causal=True)[1],
    "attend to the best": lambda b, x: b.attend(*[heads(b, x)] * 3, hard=True)[0],
    "attend additively": lambda b, x: b.attend(*[heads(b, x)] * 3, weight=numbers(D // H))[0],
    "attend once": lambda b, x: b.attend(
        b.reshape(b.last(x), (1, H, D // H)), *[heads(b, x)] * 2, scale=0.5, causal=True
    )[0],
    "attend once by weights": lambda b, x: b.attend(b.reshape(b.last(x), (1, H, D // H)), *[heads(b, x)] * 2)[1],
    "attend once by many heads": lambda b, x: b.attend(
        many_heads(b, b.reshape(b.last(x), (1, D))), many_heads(b, x), many_heads(b, x), scale=0.5
    )[0],
    **{
        name: lambda b, x, name=name: b.unary(name, x)
        for name in ["neg", "abs", "exp", "tanh", "sigmoid", "relu", "erf", "gelu", "gelu_tanh", "silu", "sin", "cos"]
    },
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("ragged", [True, False])
def test_an_operation_gives_what_the_interpreter_gives(case: str, ragged: bool) -> None:
    build, x = start()
    graph = build.graph(y=CASES[case](build, x))
    lengths = L if ragged else (3, 3)
    assert_same(graph, rows(*lengths), ragged=["source"] if ragged else [])


@pytest.mark.parametrize(
    "case",
    [
        "sum",
        "mean",
        "max",
        "first",
        "last",
        "softmax",
        "reverse",
        "windows",
        "attend once",
        "attend once by many heads",
    ],
)
def test_of_no_positions_there_are_zeros(case: str) -> None:
    build, x = start()
    assert_same(build.graph(y=CASES[case](build, x)), rows(3, 0), ragged=["source"])


def test_pictures_are_convolved_and_normalised() -> None:
    build = Builder("graph", Weights())
    x = build.input("x", (3, 8, 8))
    y = build.conv2d(x, numbers(4, 3, 3, 3), numbers(4), stride=2, padding=1)
    y = build.group_norm(y, numbers(4), numbers(4), groups=2, epsilon=1e-5)
    given = [{"x": draw.standard_normal((3, 8, 8)).astype(np.float32)} for _ in range(2)]
    assert_same(build.graph(y=y), given, rtol=1e-4, atol=1e-4)


def test_a_cache_grows() -> None:
    build = Builder("graph", Weights())
    past, x = build.input("cache", ("past", H, 3)), build.input("x", ("time", H, 3))
    keys = build.append(past, x, "now")
    graph = build.graph(next_cache=keys, y=build.attend(x, keys, keys, causal=True)[0])
    for before, now in ((0, 3), (4, 1), (4, 3)):
        given = [
            {
                "cache": draw.standard_normal((before, H, 3)).astype(np.float32),
                "x": draw.standard_normal((now, H, 3)).astype(np.float32),
            }
            for _ in range(2)
        ]
        assert_same(graph, given)


def test_every_operation_has_a_case() -> None:
    used = set()
    for case in CASES.values():
        build, x = start()
        used |= {node.op for node in build.graph(y=case(build, x)).nodes}
    assert set(OPERATIONS) - used == {"conv2d", "group_norm", "append", "recur"}
