"""The pointwise operations that kernels know: their derivatives, and how languages write them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

from weft.nn.recurrent.engine.expr import Builder, Expr

Derivative = Callable[[Builder, Expr, Expr, tuple[Expr, ...]], list[Expr | None]]
"""(build, gradient of the result, result, arguments) -> the gradient of each argument, or None where it has none."""


class Operation(NamedTuple):
    """C and Triton are format strings over the arguments."""

    c: str
    triton: str
    derivative: Derivative


def _none(build: Builder, g: Expr, y: Expr, args: tuple[Expr, ...]) -> list[Expr | None]:
    return [None] * len(args)


def _where(build: Builder, g: Expr, y: Expr, args: tuple[Expr, ...]) -> list[Expr | None]:
    zero = build.number(0.0, g.width)
    return [None, build.op("where", args[0], g, zero), build.op("where", args[0], zero, g)]


def _extreme(compare: str) -> Derivative:
    """Of minimum and maximum: the one that was taken gets the gradient, equal ones half each, as torch has it."""

    def derivative(build: Builder, g: Expr, y: Expr, args: tuple[Expr, ...]) -> list[Expr | None]:
        a, b = args
        zero, half = build.number(0.0, g.width), build.op("mul", g, build.number(0.5, g.width))

        def share(mine: Expr, other: Expr) -> Expr:
            taken = build.op("where", build.op(compare, mine, other), g, zero)
            return build.op("where", build.op("eq", mine, other), half, taken)

        return [share(a, b), share(b, a)]

    return derivative


def _divide(build: Builder, g: Expr, y: Expr, args: tuple[Expr, ...]) -> list[Expr | None]:
    over = build.op("div", g, args[1])
    return [over, build.op("neg", build.op("mul", over, y))]


def _power(build: Builder, g: Expr, y: Expr, args: tuple[Expr, ...]) -> list[Expr | None]:
    base, exponent = args
    assert exponent.value is not None  # lowering lets only numbers through
    less = build.op("pow", base, build.number(exponent.value - 1, g.width))
    return [build.op("mul", g, build.op("mul", exponent, less)), None]


def _by(factor: Callable[[Builder, Expr, Expr], Expr]) -> Derivative:
    """A function of one argument x with result y: g times a factor made of y and x."""

    def derivative(build: Builder, g: Expr, y: Expr, args: tuple[Expr, ...]) -> list[Expr | None]:
        return [build.op("mul", g, factor(build, y, args[0]))]

    return derivative


def _one_minus(build: Builder, expr: Expr) -> Expr:
    return build.op("sub", build.number(1.0, expr.width), expr)


def _relu(build: Builder, g: Expr, y: Expr, args: tuple[Expr, ...]) -> list[Expr | None]:
    zero = build.number(0.0, g.width)
    return [build.op("where", build.op("gt", y, zero), g, zero)]


OPERATIONS: Final[dict[str, Operation]] = {
    "add": Operation("({0} + {1})", "({0} + {1})", lambda build, g, y, args: [g, g]),
    "sub": Operation("({0} - {1})", "({0} - {1})", lambda build, g, y, args: [g, build.op("neg", g)]),
    "mul": Operation(
        "({0} * {1})",
        "({0} * {1})",
        lambda build, g, y, args: [build.op("mul", g, args[1]), build.op("mul", g, args[0])],
    ),
    "div": Operation("({0} / {1})", "({0} / {1})", _divide),
    "neg": Operation("(-{0})", "(-{0})", lambda build, g, y, args: [build.op("neg", g)]),
    "sigmoid": Operation(
        "sigmoid({0})", "tl.sigmoid({0})", _by(lambda build, y, x: build.op("mul", y, _one_minus(build, y)))
    ),
    "tanh": Operation(
        "hyperbolic({0})", "hyperbolic({0})", _by(lambda build, y, x: _one_minus(build, build.op("mul", y, y)))
    ),
    "relu": Operation("({0} < 0.0f ? 0.0f : {0})", "tl.where({0} < 0, 0.0, {0})", _relu),
    "exp": Operation("exponential({0})", "tl.exp({0})", _by(lambda build, y, x: y)),
    "log": Operation("logf({0})", "tl.log({0})", lambda build, g, y, args: [build.op("div", g, args[0])]),
    "sqrt": Operation(
        "__builtin_sqrtf({0})",
        "tl.sqrt({0})",
        lambda build, g, y, args: [build.op("div", build.op("mul", g, build.number(0.5, g.width)), y)],
    ),
    "abs": Operation("__builtin_fabsf({0})", "tl.abs({0})", _by(lambda build, y, x: build.op("sign", x))),
    "sign": Operation(
        "(float)(({0} > 0.0f) - ({0} < 0.0f))", "tl.where({0} > 0, 1.0, tl.where({0} < 0, -1.0, 0.0))", _none
    ),
    "sin": Operation("sinf({0})", "tl.sin({0})", _by(lambda build, y, x: build.op("cos", x))),
    "cos": Operation("cosf({0})", "tl.cos({0})", _by(lambda build, y, x: build.op("neg", build.op("sin", x)))),
    "pow": Operation("powf({0}, {1})", "libdevice.pow({0}, {1})", _power),
    "min": Operation("({1} < {0} ? {1} : {0})", "tl.minimum({0}, {1})", _extreme("lt")),
    "max": Operation("({1} > {0} ? {1} : {0})", "tl.maximum({0}, {1})", _extreme("gt")),
    "lt": Operation("({0} < {1})", "({0} < {1})", _none),
    "le": Operation("({0} <= {1})", "({0} <= {1})", _none),
    "gt": Operation("({0} > {1})", "({0} > {1})", _none),
    "ge": Operation("({0} >= {1})", "({0} >= {1})", _none),
    "eq": Operation("({0} == {1})", "({0} == {1})", _none),
    "where": Operation("({0} ? {1} : {2})", "tl.where({0}, {1}, {2})", _where),
    "detach": Operation("{0}", "{0}", _none),
}

CHEAP: Final = frozenset(
    {"add", "sub", "mul", "neg", "where", "lt", "le", "gt", "ge", "eq", "min", "max", "detach", "sign", "abs"}
)
"""Operations that cost less to compute again than to keep."""

COMPARISONS: Final = frozenset({"lt", "le", "gt", "ge", "eq"})
"""Operations whose result is true or false."""


def c_number(value: float) -> str:
    """A number as C writes it."""
    if math.isfinite(value):
        return f"{value!r}f"
    return "NAN" if math.isnan(value) else f"({math.copysign(1, value):.0f} * INFINITY)"
