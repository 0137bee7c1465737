"""Torch's elementwise operations in the step of a cell, in operations of a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor, fx

from weft.export.graph.graph import COMPARE, Value
from weft.nn.recurrent.engine.trace import Untraceable

if TYPE_CHECKING:
    from weft.export.graph.cell import _Lowering

aten = torch.ops.aten

Handler = Callable[..., Any]
Formula = Callable[..., Value]


class Pointwise:
    """The arguments of an elementwise operation as values of a row, and short names to compute with them."""

    def __init__(self, low: _Lowering, node: fx.Node) -> None:
        self.low, self.node, self.build = low, node, low.build

    def value(self, part: Any) -> Value:
        """An argument; a tensor that is the same for all rows has no axis for them, or one of size 1."""
        if isinstance(part, Tensor):
            from_end = len(self.node.meta["shape"]) - self.node.meta["rows"][0]
            if part.dim() >= from_end:
                part = part.squeeze(part.dim() - from_end)
        part = float(part) if type(part) is int else part
        return self.low.value(part)

    def __call__(self, op: str, *parts: Any) -> Value:
        values = [self.value(part) for part in parts]
        if len(values) == 1:
            return self.build.unary(op, values[0])
        kinds = {value.kind for value in values}
        if len(kinds) > 1 or (kinds == {"bool"} and op not in ("and", "or")):
            values = [self.build.cast(value, "float") for value in values]
        return self.build.binary(op, *values)

    def where(self, condition: Any, a: Any, b: Any) -> Value:
        pair = [self.build.cast(self.value(part), "float") for part in (a, b)]
        return self.build.where(self.build.cast(self.value(condition), "bool"), *pair)


def _check_rows(node: fx.Node) -> None:
    """All inputs with rows have them on the same axis, counted from the last."""
    rows = {len(used.meta["shape"]) - axis for used in node.all_input_nodes for axis in used.meta.get("rows", ())}
    if len(node.meta["rows"]) != 1 or len(rows) > 1:
        raise Untraceable("it mixes the rows of a batch")


def _by(formula: Formula) -> Handler:
    """A handler of an operation that is a formula of its arguments."""

    def handle(low: _Lowering, node: fx.Node, *args: Any, **kwargs: Any) -> Value:
        _check_rows(node)
        return formula(Pointwise(low, node), *args, **kwargs)

    return handle


def _one(op: str) -> Handler:
    return _by(lambda f, x, **_: f(op, x))


def _two(op: str) -> Handler:
    return _by(lambda f, a, b, **_: f(op, a, b))


def _sum(op: str) -> Handler:
    return _by(lambda f, a, b, alpha=1: f(op, a, b if alpha == 1 else f("mul", b, float(alpha))))


def _divide(f: Pointwise, a: Any, b: Any, rounding_mode: str | None = None) -> Value:
    if rounding_mode is not None:
        raise Untraceable("it rounds a quotient")
    return f("div", a, b)


def _clamp(f: Pointwise, x: Any, low: Any = None, high: Any = None) -> Value:
    x = x if low is None else f("maximum", x, low)
    return f.value(x) if high is None else f("minimum", x, high)


def _softplus(f: Pointwise, x: Any, beta: float = 1, threshold: float = 20) -> Value:
    scaled = f("mul", x, float(beta))
    soft = f("log", f("add", f("exp", f("minimum", scaled, float(threshold))), 1.0))
    return f.where(f("gt", scaled, float(threshold)), x, f("div", soft, float(beta)))


def _elu(f: Pointwise, x: Any, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Value:
    below = f("mul", f("sub", f("exp", f("mul", f("minimum", x, 0.0), float(input_scale))), 1.0), float(alpha))
    return f("mul", f.where(f("gt", x, 0.0), x, below), float(scale))


def _gelu(f: Pointwise, x: Any, approximate: str = "none") -> Value:
    return f("gelu" if approximate == "none" else "gelu_tanh", x)


def _power(f: Pointwise, x: Any, exponent: Any) -> Value:
    if exponent == 2:
        return f("mul", x, x)
    return f("pow", x, float(exponent) if isinstance(exponent, int) else exponent)


def _sign(f: Pointwise, x: Any) -> Value:
    return f("sub", f.build.cast(f("gt", x, 0.0), "float"), f.build.cast(f("lt", x, 0.0), "float"))


def _not_equal(f: Pointwise, a: Any, b: Any) -> Value:
    return f("not", f("eq", a, b))


def _logical(op: str) -> Handler:
    def formula(f: Pointwise, *parts: Any) -> Value:
        values = []
        for part in parts:
            value = f.value(part)
            values.append(value if value.kind == "bool" else _not_equal(f, value, 0.0))
        return f(op, *values)

    return _by(formula)


def _lerp(f: Pointwise, a: Any, b: Any, weight: Any) -> Value:
    return f("add", a, f("mul", weight, f("sub", b, a)))


def _hard_sigmoid(f: Pointwise, x: Any) -> Value:
    return f("div", _clamp(f, f("add", x, 3.0), 0.0, 6.0), 6.0)


def _log1p_exp(f: Pointwise, x: Any) -> Value:
    """log(1 + exp(x)), which never overflows."""
    small = f("log", f("add", f("exp", f("neg", f("abs", x))), 1.0))
    return f("add", f("maximum", x, 0.0), small)


UNARY: Final = ("neg", "sigmoid", "tanh", "relu", "exp", "log", "sqrt", "abs", "sin", "cos", "erf", "silu")
COMPARISONS: Final = tuple(name for name in COMPARE if name not in ("and", "or"))

POINTWISE: Final[dict[Any, Handler]] = {
    **{getattr(aten, name).default: _one(name) for name in UNARY},
    **{getattr(getattr(aten, name), kind): _two(name) for name in COMPARISONS for kind in ("Tensor", "Scalar")},
    aten.add.Tensor: _sum("add"),
    aten.add.Scalar: _sum("add"),
    aten.sub.Tensor: _sum("sub"),
    aten.sub.Scalar: _sum("sub"),
    aten.mul.Tensor: _two("mul"),
    aten.mul.Scalar: _two("mul"),
    aten.div.Tensor: _by(_divide),
    aten.div.Scalar: _by(_divide),
    aten.ne.Tensor: _by(_not_equal),
    aten.ne.Scalar: _by(_not_equal),
    aten.minimum.default: _two("minimum"),
    aten.maximum.default: _two("maximum"),
    aten.logical_not.default: _logical("not"),
    aten.bitwise_not.default: _logical("not"),
    aten.logical_and.default: _logical("and"),
    aten.bitwise_and.Tensor: _logical("and"),
    aten.logical_or.default: _logical("or"),
    aten.bitwise_or.Tensor: _logical("or"),
    aten.where.self: _by(lambda f, condition, a, b: f.where(condition, a, b)),
    aten.masked_fill.Scalar: _by(lambda f, x, mask, value: f.where(mask, value, x)),
    aten.masked_fill.Tensor: _by(lambda f, x, mask, value: f.where(mask, value, x)),
    aten.rsub.Scalar: _by(lambda f, a, b, alpha=1: f("sub", b, a if alpha == 1 else f("mul", a, float(alpha)))),
    aten.rsub.Tensor: _by(lambda f, a, b, alpha=1: f("sub", b, a if alpha == 1 else f("mul", a, float(alpha)))),
    aten.clamp.default: _by(_clamp),
    aten.clamp_min.default: _by(_clamp),
    aten.clamp_max.default: _by(lambda f, x, high: _clamp(f, x, None, high)),
    aten.hardtanh.default: _by(lambda f, x, low=-1.0, high=1.0: _clamp(f, x, low, high)),
    aten.hardsigmoid.default: _by(_hard_sigmoid),
    aten.hardswish.default: _by(lambda f, x: f("mul", x, _hard_sigmoid(f, x))),
    aten.leaky_relu.default: _by(lambda f, x, slope=0.01: f.where(f("gt", x, 0.0), x, f("mul", x, float(slope)))),
    aten.elu.default: _by(_elu),
    aten.softplus.default: _by(_softplus),
    aten.log_sigmoid_forward.default: lambda low, node, x: [_by(_log_sigmoid)(low, _output(node), x), None],
    aten.mish.default: _by(lambda f, x: f("mul", x, f("tanh", _softplus(f, x)))),
    aten.gelu.default: _by(_gelu),
    aten.reciprocal.default: _by(lambda f, x: f("div", 1.0, x)),
    aten.rsqrt.default: _by(lambda f, x: f("div", 1.0, f("sqrt", x))),
    aten.log1p.default: _by(lambda f, x: f("log", f("add", x, 1.0))),
    aten.expm1.default: _by(lambda f, x: f("sub", f("exp", x), 1.0)),
    aten.sign.default: _by(_sign),
    aten.sgn.default: _by(_sign),
    aten.pow.Tensor_Scalar: _by(_power),
    aten.pow.Tensor_Tensor: _by(_power),
    aten.lerp.Tensor: _by(_lerp),
    aten.lerp.Scalar: _by(_lerp),
    aten.addcmul.default: _by(lambda f, a, b, c, value=1: f("add", a, f("mul", f("mul", b, c), float(value)))),
    aten.addcdiv.default: _by(lambda f, a, b, c, value=1: f("add", a, f("mul", f("div", b, c), float(value)))),
}
"""Operations by what torch calls them."""


def _log_sigmoid(f: Pointwise, x: Any) -> Value:
    return f("neg", _log1p_exp(f, f("neg", x)))


def _output(node: fx.Node) -> fx.Node:
    """The first of an operation's results, which knows their shape."""
    return next(iter(node.users))
