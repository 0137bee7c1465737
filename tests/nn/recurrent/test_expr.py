"""Expressions over columns: their algebra, their derivatives, and torch's operations written in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional
from torch.testing import assert_close

from weft.nn import Cell
from weft.nn.recurrent.engine.argument import Kind
from weft.nn.recurrent.engine.expr import Builder, Expr, Row, closure, placed, width_of
from weft.nn.recurrent.engine.operations import CHEAP, OPERATIONS
from weft.nn.recurrent.engine.plan import Plan
from weft.nn.recurrent.engine.run import plan_of
from weft.nn.recurrent.engine.torch_operations import BINARY, COMPOSED, UNARY
from weft.nn.recurrent.engine.trace import trace

TORCH: dict[str, Callable[..., Tensor]] = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "neg": torch.neg,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "relu": torch.relu,
    "exp": torch.exp,
    "log": torch.log,
    "sqrt": torch.sqrt,
    "abs": torch.abs,
    "sign": torch.sign,
    "sin": torch.sin,
    "cos": torch.cos,
    "pow": torch.pow,
    "min": torch.minimum,
    "max": torch.maximum,
    "lt": torch.lt,
    "le": torch.le,
    "gt": torch.gt,
    "ge": torch.ge,
    "eq": torch.eq,
    "where": torch.where,
    "detach": torch.Tensor.detach,
}
COMPARED = {"lt", "le", "gt", "ge", "eq"}
WIDTH = 12
BUFFERS = {(Kind.STATE, 0): torch.randn(3, WIDTH, generator=torch.Generator().manual_seed(0), dtype=torch.float64)}

Buffers = dict[tuple[Kind, int], Tensor]


def evaluate(expr: Expr, buffers: Buffers) -> Tensor:
    """What an expression means: (B, width)."""
    if expr.leaf:
        kind, number, offset, stride = expr.leaf
        return buffers[kind, number][:, offset + stride * torch.arange(expr.width)]
    if expr.value is not None:
        return torch.full((3, expr.width), expr.value, dtype=torch.float64)
    return TORCH[expr.op](*(evaluate(arg, buffers) for arg in expr.args))


def evaluate_row(row: Row, buffers: Buffers) -> Tensor:
    return torch.cat([evaluate(expr, buffers) for expr in row], dim=1)


def test_every_operation_is_compared_with_torch() -> None:
    assert TORCH.keys() == OPERATIONS.keys()
    assert OPERATIONS.keys() > CHEAP


BUILD = Builder()


@st.composite
def expressions(draw: st.DrawFn, width: int, depth: int = 3) -> Expr:
    """Of leaves, some repeating one column, and numbers."""
    kind = draw(
        st.sampled_from(["leaf", "repeated", "number", "op", "op"] if depth else ["leaf", "repeated", "number"])
    )
    if kind == "number":
        return BUILD.number(draw(st.sampled_from([0.0, 1.0, -1.0, 0.5])), width)
    if kind != "op":
        stride = 1 if kind == "leaf" else 0
        offset = draw(st.integers(0, WIDTH - (width if stride else 1)))
        return BUILD.leaf(Kind.STATE, 0, width, offset=offset, stride=stride)
    op = draw(st.sampled_from(["add", "sub", "mul", "neg", "tanh", "max"]))
    args = [draw(expressions(width, depth - 1)) for _ in range(1 if op in ("neg", "tanh") else 2)]
    return BUILD.op(op, *args)


@st.composite
def rows(draw: st.DrawFn) -> Row:
    """A row of WIDTH columns in pieces of any size."""
    ends = sorted(draw(st.sets(st.integers(1, WIDTH - 1), max_size=4)) | {WIDTH})
    return [draw(expressions(end - start, 2)) for start, end in zip([0, *ends], ends, strict=False)]


@st.composite
def spans(draw: st.DrawFn, width: int) -> tuple[int, int]:
    """The first column and the number of columns."""
    start = draw(st.integers(0, width - 1))
    return start, draw(st.integers(1, width - start))


@given(st.data(), expressions(WIDTH))
def test_a_cut_is_those_columns(data: st.DataObject, expr: Expr) -> None:
    start, width = data.draw(spans(WIDTH))
    part = BUILD.cut(expr, start, width)
    assert part.width == width
    assert torch.equal(evaluate(part, BUFFERS), evaluate(expr, BUFFERS)[:, start : start + width])
    again, fewer = data.draw(spans(width))
    assert BUILD.cut(part, again, fewer) is BUILD.cut(expr, start + again, fewer)
    assert BUILD.cut(expr, 0, WIDTH) is expr


@given(st.data(), rows())
def test_columns_of_a_row(data: st.DataObject, row: Row) -> None:
    start, width = data.draw(spans(WIDTH))
    taken = BUILD.columns(row, start, width)
    assert width_of(taken) == width
    assert torch.equal(evaluate_row(taken, BUFFERS), evaluate_row(row, BUFFERS)[:, start : start + width])
    assert BUILD.columns(row, 0, WIDTH) == row


@given(st.lists(rows(), min_size=1, max_size=3))
def test_aligned_rows_are_cut_alike_and_unchanged(several: list[Row]) -> None:
    aligned = BUILD.align(several)
    assert len({tuple(expr.width for expr in row) for row in aligned}) == 1
    for row, before in zip(aligned, several, strict=True):
        assert torch.equal(evaluate_row(row, BUFFERS), evaluate_row(before, BUFFERS))
        assert {at for at, _ in placed(before)} <= {at for at, _ in placed(row)}
    assert BUILD.align(aligned) == aligned


@given(rows(), rows())
def test_an_operation_on_rows_is_one_on_their_columns(a: Row, b: Row) -> None:
    found = evaluate_row(BUILD.row_op("mul", a, b), BUFFERS)
    assert torch.equal(found, evaluate_row(a, BUFFERS) * evaluate_row(b, BUFFERS))


@given(st.sampled_from(["add", "sub", "mul", "max"]), expressions(5, 1), expressions(5, 1))
def test_simpler_expressions_mean_the_same_and_are_one_object(op: str, a: Expr, b: Expr) -> None:
    made = BUILD.op(op, a, b)
    assert torch.equal(evaluate(made, BUFFERS), TORCH[op](evaluate(a, BUFFERS), evaluate(b, BUFFERS)))
    assert BUILD.op(op, a, b) is made


@given(expressions(4), expressions(4))
def test_a_closure_has_arguments_before_their_uses(a: Expr, b: Expr) -> None:
    order = closure([a, b])
    assert len(set(order)) == len(order)
    place = {expr: number for number, expr in enumerate(order)}
    assert {a, b} <= place.keys()
    assert all(place[arg] < place[expr] for expr in order for arg in expr.args)


def test_operations_of_unlike_widths_are_refused() -> None:
    with pytest.raises(ValueError, match="add of different widths"):
        BUILD.op("add", BUILD.number(1.0, 2), BUILD.number(1.0, 3))


def test_simplifications_by_name() -> None:
    h, zero, one = BUILD.leaf(Kind.STATE, 0, 3), BUILD.number(0, 3), BUILD.number(1, 3)
    assert BUILD.op("add", h, zero) is BUILD.op("add", zero, h) is BUILD.op("sub", h, zero) is h
    assert BUILD.op("mul", h, one) is BUILD.op("mul", one, h) is BUILD.op("neg", BUILD.op("neg", h)) is h
    assert BUILD.op("mul", h, zero) is zero
    assert BUILD.op("sub", zero, h) is BUILD.op("neg", h)


POINTS = {
    "log": [0.3, 1.0, 2.5],
    "sqrt": [0.3, 1.0, 2.5],
    "pow": [0.3, 1.0, 2.5],
}
"""Elsewhere any number is an argument, zero and equal ones too."""


@pytest.mark.parametrize("op", sorted(OPERATIONS.keys() - COMPARED))
def test_derivatives_are_those_of_torch(op: str) -> None:
    points = torch.tensor(POINTS.get(op, [-1.3, 0.0, 0.7]), dtype=torch.float64)
    build, count = Builder(), {"where": 3, "pow": 1}.get(op, 1 + (op in ("add", "sub", "mul", "div", "min", "max")))
    grid = torch.cartesian_prod(*[points] * count).view(-1, count)
    values = [grid[:, number].expand(3, -1).clone().requires_grad_() for number in range(count)]
    if op == "div":
        values[1] = (values[1].detach() + 2.0).requires_grad_()
    width = values[0].size(1)
    args = [build.leaf(Kind.STATE, number, width) for number in range(count)]
    arguments: list[Any] = list(values)
    if op == "where":
        args[0], arguments[0] = build.op("gt", args[0], build.number(0.0, width)), values[0] > 0
    if op == "pow":
        args, arguments = [*args, build.number(-1.5, width)], [*arguments, -1.5]
    result = build.op(op, *args)
    parts = OPERATIONS[op].derivative(build, build.leaf(Kind.GRAD_EMITTED, 0, width), result, tuple(args))
    outcome = TORCH[op](*arguments)
    gradient = torch.randn(3, width, dtype=torch.float64)
    expected: list[Any] = [None] * count
    if outcome.requires_grad:
        expected = list(torch.autograd.grad(outcome, values, gradient, allow_unused=True))
    buffers = {(Kind.STATE, number): value.detach() for number, value in enumerate(values)} | {
        (Kind.GRAD_EMITTED, 0): gradient
    }
    assert len(parts) == len(args)
    for part, right in zip(parts, expected, strict=False):
        found = torch.zeros_like(gradient) if part is None else evaluate(part, buffers)
        assert_close(found, torch.zeros_like(gradient) if right is None else right)


@pytest.mark.parametrize("op", sorted(COMPARED))
def test_a_comparison_has_no_derivative(op: str) -> None:
    build = Builder()
    a, b, g = (build.leaf(kind, 0, 2) for kind in (Kind.STATE, Kind.HOISTED, Kind.GRAD_EMITTED))
    assert OPERATIONS[op].derivative(build, g, build.op(op, a, b), (a, b)) == [None, None]


Function = Callable[[Tensor, Tensor], Tensor]
"""(state, input) -> next state."""

WRITTEN: dict[str, Function] = {
    "neg": lambda h, x: -h + x,
    "sigmoid": lambda h, x: torch.sigmoid(h + x),
    "tanh": lambda h, x: torch.tanh(h) * x,
    "relu": lambda h, x: torch.relu(h) + x,
    "exp": lambda h, x: torch.exp(h - x),
    "log": lambda h, x: torch.log(7.0 + h) + x,
    "sqrt": lambda h, x: torch.sqrt(7.0 + h) + x,
    "abs": lambda h, x: torch.abs(h) + x.abs(),
    "sin": lambda h, x: torch.sin(h) + torch.cos(x),
    "detach": lambda h, x: h.detach() * h + x,
    "numbers": lambda h, x: 2 * h + 1 - x / 3 - (5 - h) + 2 / (8.0 + x),
    "add with a factor": lambda h, x: torch.add(h, x, alpha=3) - torch.sub(x, h, alpha=2),
    "rsub": lambda h, x: torch.rsub(h, x) + torch.rsub(h, 2.0),
    "rsub with a factor": lambda h, x: torch.rsub(h, x, alpha=3) + torch.rsub(x, 2.0, alpha=2),
    "minimum": lambda h, x: torch.minimum(h, x) * torch.maximum(h, 2 * x),
    "less": lambda h, x: torch.where(h < x, h, 2 * x) + torch.where(h < 0.5, h * h, x),
    "at most": lambda h, x: torch.where(h <= x, h, 2 * x) + torch.where(h <= 0.5, h * h, x),
    "more": lambda h, x: torch.where(h > x, h, 2 * x) + torch.where(h > 0.5, h * h, x),
    "at least": lambda h, x: torch.where(h >= x, h, 2 * x) + torch.where(h >= 0.5, h * h, x),
    "clamp": lambda h, x: torch.clamp(h, -1.0, 1.0) + x,
    "clamp from below": lambda h, x: torch.clamp(h, min=0.0) + x.clamp_min(-0.5),
    "clamp from above": lambda h, x: torch.clamp(h, max=0.0) + x.clamp_max(0.5),
    "hardtanh": lambda h, x: functional.hardtanh(h) + functional.hardtanh(x, 0.0, 0.5),
    "relu6": lambda h, x: functional.relu6(h) + x,
    "hardsigmoid": lambda h, x: functional.hardsigmoid(h) + x,
    "leaky relu": lambda h, x: functional.leaky_relu(h) + functional.leaky_relu(x, 0.3),
    "softplus": lambda h, x: functional.softplus(h) + functional.softplus(10 * x),
    "silu": lambda h, x: functional.silu(h) + x,
    "reciprocal": lambda h, x: torch.reciprocal(9.0 + h) + x,
    "powers": lambda h, x: h**2 + h**3 - x.square() + (9.0 + h) ** -0.5 + h**1 + h**0,
    "lerp": lambda h, x: torch.lerp(h, x, 0.3) + torch.lerp(x, h, torch.sigmoid(h)),
    "addcmul": lambda h, x: torch.addcmul(h, x, h),
    "addcmul with a factor": lambda h, x: torch.addcmul(h, x, h, value=0.5),
    "addcdiv": lambda h, x: torch.addcdiv(h, x, 9.0 + h),
    "addcdiv with a factor": lambda h, x: torch.addcdiv(h, h, 9.0 + x, value=0.5),
    "logaddexp": lambda h, x: torch.logaddexp(h, x) + torch.logaddexp(2 * x, h),
    "logsigmoid": lambda h, x: functional.logsigmoid(h) + functional.logsigmoid(10 * x),
    "masked fill": lambda h, x: h.masked_fill(x > 0.5, 0.25) + x.masked_fill(h < 0, 2.0),
}
CORNERS = torch.tensor([-6.0, -3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0, 6.0], dtype=torch.float64)


def cell_of(function: Function) -> Cell:
    class Function_(Cell):
        def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
            h = function(h, x)
            return h, h

    return Function_(CORNERS.numel() ** 2, CORNERS.numel() ** 2)


SYNONYMS = {f"aten.{name}.Scalar" for name in ("add", "sub", "mul", "div")}
"""torch itself turns these into the operation with a tensor."""


def test_every_operation_of_torch_that_is_known_is_compared() -> None:
    graphs = [trace(cell_of(function), torch.float32).graph for function in WRITTEN.values()]
    seen = {str(node.target) for graph in graphs for node in graph.nodes}
    known = {str(target) for target in (*UNARY, *BINARY, *COMPOSED)}
    assert known - seen <= SYNONYMS


@pytest.mark.parametrize("name", WRITTEN)
def test_torch_operations_and_their_gradients(name: str) -> None:
    """At every pair of corner values, so also where a function has a corner and where arguments are equal."""
    plan = plan_of(cell_of(WRITTEN[name]))
    assert isinstance(plan, Plan), plan
    assert plan.kernels is not None, plan.refusal
    program, adjoint = plan.kernels.program, plan.kernels.adjoint
    h, x = (part.expand(3, -1).clone().requires_grad_() for part in torch.cartesian_prod(CORNERS, CORNERS).unbind(1))
    outcome = WRITTEN[name](h, x)
    buffers = {(Kind.STATE, 0): h.detach(), (Kind.HOISTED, 0): x.detach()}
    buffers[Kind.AFTER, 0] = evaluate_row(program.after[0], buffers)
    assert_close(buffers[Kind.AFTER, 0], outcome.detach())
    buffers |= {(Kind.SAVED, number): evaluate(expr, buffers) for number, expr in enumerate(adjoint.saved)}
    gradient = torch.randn_like(outcome)
    buffers |= {(Kind.GRAD_AFTER, 0): gradient, (Kind.GRAD_EMITTED, 0): torch.zeros_like(gradient)}
    expected = torch.autograd.grad(outcome, (h, x), gradient)
    found = evaluate_row(adjoint.state[0], buffers), evaluate_row(adjoint.hoisted[0], buffers)
    assert_close(found, expected)
