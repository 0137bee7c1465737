"""How torch's pointwise operations are written in those that the kernels know."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import torch

from weft.nn.recurrent.engine.expr import Builder, Row, width_of
from weft.nn.recurrent.engine.trace import Untraceable

aten = torch.ops.aten

UNARY: Final = {
    aten.neg.default: "neg",
    aten.sigmoid.default: "sigmoid",
    aten.tanh.default: "tanh",
    aten.relu.default: "relu",
    aten.exp.default: "exp",
    aten.log.default: "log",
    aten.sqrt.default: "sqrt",
    aten.abs.default: "abs",
    aten.sin.default: "sin",
    aten.cos.default: "cos",
    aten.detach.default: "detach",
}
BINARY: Final = {
    aten.add.Tensor: "add",
    aten.add.Scalar: "add",
    aten.sub.Tensor: "sub",
    aten.sub.Scalar: "sub",
    aten.mul.Tensor: "mul",
    aten.mul.Scalar: "mul",
    aten.div.Tensor: "div",
    aten.div.Scalar: "div",
    aten.minimum.default: "min",
    aten.maximum.default: "max",
    aten.lt.Tensor: "lt",
    aten.lt.Scalar: "lt",
    aten.le.Tensor: "le",
    aten.le.Scalar: "le",
    aten.gt.Tensor: "gt",
    aten.gt.Scalar: "gt",
    aten.ge.Tensor: "ge",
    aten.ge.Scalar: "ge",
    aten.where.self: "where",
}


def _clamp(build: Builder, x: Row, low: Row | None = None, high: Row | None = None, *, open_: bool = False) -> Row:
    """At a bound the gradient passes, as torch has it for clamp; not if `open_`, as torch has it for the others."""
    y = x
    if high:
        y = build.row_op("where", build.row_op("ge" if open_ else "gt", x, high), high, y)
    return build.row_op("where", build.row_op("le" if open_ else "lt", x, low), low, y) if low else y


def _fill(build: Builder, value: float, like: Row) -> Row:
    return [build.number(value, width_of(like))]


def _softplus(build: Builder, x: Row, beta: Row | None = None, threshold: Row | None = None) -> Row:
    one, twenty = _fill(build, 1.0, x), _fill(build, 20.0, x)
    if beta or threshold:
        raise Untraceable("softplus has a beta or a threshold")
    soft = build.row_op("log", build.row_op("add", one, build.row_op("exp", build.row_op("min", x, twenty))))
    return build.row_op("where", build.row_op("gt", x, twenty), x, soft)


def _hardtanh(build: Builder, x: Row, min_val: Row | None = None, max_val: Row | None = None) -> Row:
    return _clamp(build, x, min_val or _fill(build, -1.0, x), max_val or _fill(build, 1.0, x), open_=True)


def _hardsigmoid(build: Builder, x: Row) -> Row:
    inside = _hardtanh(build, x, _fill(build, -3.0, x), _fill(build, 3.0, x))
    return build.row_op("add", build.row_op("div", inside, _fill(build, 6.0, x)), _fill(build, 0.5, x))


def _scaled(build: Builder, row: Row, factor: Row | None) -> Row:
    return build.row_op("mul", row, factor) if factor else row


def _rsub(build: Builder, a: Row, b: Row, alpha: Row | None = None) -> Row:
    return build.row_op("sub", b, _scaled(build, a, alpha))


def _addcmul(build: Builder, a: Row, b: Row, c: Row, *, value: Row | None = None) -> Row:
    return build.row_op("add", a, _scaled(build, build.row_op("mul", b, c), value))


def _addcdiv(build: Builder, a: Row, b: Row, c: Row, *, value: Row | None = None) -> Row:
    return build.row_op("add", a, _scaled(build, build.row_op("div", b, c), value))


def _log_one_plus_exp(build: Builder, negative: Row) -> Row:
    """log(1 + e^x) for x ≤ 0."""
    return build.row_op("log", build.row_op("add", _fill(build, 1.0, negative), build.row_op("exp", negative)))


def _logaddexp(build: Builder, a: Row, b: Row) -> Row:
    """log(e^a + e^b). Equal ones, of which both may be -inf, are taken apart: their difference would be no number."""
    high, low = build.row_op("max", a, b), build.row_op("min", a, b)
    apart = build.row_op("add", high, _log_one_plus_exp(build, build.row_op("sub", low, high)))
    mean = build.row_op("mul", build.row_op("add", a, b), _fill(build, 0.5, a))
    equal = build.row_op("add", mean, _fill(build, math.log(2), a))
    return build.row_op("where", build.row_op("eq", a, b), equal, apart)


def log_sigmoid(build: Builder, x: Row) -> Row:
    """log σ(x) = min(x, 0) - log(1 + e^-|x|)."""
    away = build.row_op("neg", build.row_op("abs", x))
    return build.row_op("sub", build.row_op("min", x, _fill(build, 0.0, x)), _log_one_plus_exp(build, away))


def _leaky(build: Builder, x: Row, slope: Row | None = None) -> Row:
    zero = _fill(build, 0.0, x)
    return build.row_op("where", build.row_op("gt", x, zero), x, build.row_op("mul", x, slope or _fill(build, 0.01, x)))


def _lerp(build: Builder, a: Row, b: Row, weight: Row) -> Row:
    return build.row_op("add", a, build.row_op("mul", weight, build.row_op("sub", b, a)))


def _power(build: Builder, x: Row, exponent: Row) -> Row:
    if exponent[0].value == 2.0:
        return build.row_op("mul", x, x)
    return build.row_op("pow", x, exponent)


COMPOSED: Final[dict[Any, Callable[..., Row]]] = {
    aten.rsub.Scalar: _rsub,
    aten.rsub.Tensor: _rsub,
    aten.clamp.default: _clamp,
    aten.clamp_min.default: _clamp,
    aten.clamp_max.default: lambda build, x, high: _clamp(build, x, None, high),
    aten.hardtanh.default: _hardtanh,
    aten.hardsigmoid.default: _hardsigmoid,
    aten.leaky_relu.default: _leaky,
    aten.softplus.default: _softplus,
    aten.silu.default: lambda build, x: build.row_op("mul", x, build.row_op("sigmoid", x)),
    aten.reciprocal.default: lambda build, x: build.row_op("div", _fill(build, 1.0, x), x),
    aten.pow.Tensor_Scalar: _power,
    aten.lerp.Tensor: _lerp,
    aten.lerp.Scalar: _lerp,
    aten.addcmul.default: _addcmul,
    aten.addcdiv.default: _addcdiv,
    aten.logaddexp.default: _logaddexp,
    aten.masked_fill.Scalar: lambda build, x, mask, value: build.row_op("where", mask, value, x),
}

POINTWISE: Final = UNARY.keys() | BINARY.keys() | COMPOSED.keys()
