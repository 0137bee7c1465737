"""The outputs of a forecaster in a graph: from the numbers of the network to quantiles.

raw (…, size), simple forecast (…), scale () -> quantiles (…, Q), the median (…)
"""

from __future__ import annotations

from typing import Any, Final

import torch

from weft.export.graph.build import Builder
from weft.export.graph.graph import Value
from weft.export.graph.refusal import Lowerings
from weft.models.forecast_output import MIN_FREEDOM, START_SPREAD, PointOutput, QuantileOutput, StudentOutput


def quantiles_of(build: Builder, output: Any, raw: Value, base: Value, scale: Value) -> tuple[Value, Value]:
    return OUTPUTS[type(output)](build, output, raw, base, scale)  # type: ignore[no-any-return]


def _point(build: Builder, output: PointOutput, raw: Value, base: Value, scale: Value) -> tuple[Value, Value]:
    median = build.add(_wide(build, base), build.mul(scale, raw))
    every = build.add(median, build.constant(torch.zeros(len(output.levels))))
    return every, build.reshape(median, base.shape)


def _quantile(build: Builder, output: QuantileOutput, raw: Value, base: Value, scale: Value) -> tuple[Value, Value]:
    middle, count = output.middle, output.size
    median = build.add(_wide(build, base), build.mul(scale, build.slice(raw, middle, middle + 1)))
    spread = build.mul(scale, softplus(build, build.add(raw, build.number(START_SPREAD))))
    spread = build.binary("div", spread, build.number(float(count)))
    axis, parts = len(raw.shape) - 1, [median]
    if middle + 1 < count:
        above = build.cumulate("sum", build.slice(spread, middle + 1, count), axis)
        parts.append(build.add(median, above))
    if middle:
        back = build.concat([build.slice(spread, place, place + 1) for place in range(middle - 1, -1, -1)])
        below = build.cumulate("sum", back, axis)
        turned = build.concat([build.slice(below, place, place + 1) for place in range(middle - 1, -1, -1)])
        parts.insert(0, build.binary("sub", median, turned))
    return build.concat(parts), build.reshape(median, base.shape)


def _student(build: Builder, output: StudentOutput, raw: Value, base: Value, scale: Value) -> tuple[Value, Value]:
    """The quantiles of the standard distribution are read from a table over 1/ν, between its rows by a line."""
    column = [build.slice(raw, place, place + 1) for place in range(3)]
    location = build.add(_wide(build, base), build.mul(scale, column[0]))
    width = build.mul(scale, softplus(build, build.add(column[1], build.number(START_SPREAD))))
    width = build.add(build.scaled(width, 0.5), build.number(1e-4))
    freedom = build.add(softplus(build, build.add(column[2], build.number(2.0))), build.number(MIN_FREEDOM))
    grid, table = output.inverse, output.table
    inverse = build.binary("div", build.number(1.0), freedom)
    inverse = build.binary("maximum", inverse, build.number(float(grid[0])))
    inverse = build.binary("minimum", inverse, build.number(float(grid[-1])))
    below = build.cast(build.binary("lt", build.constant(grid), inverse), "int")
    right = build.reduce("sum", below, -1)
    right = build.binary("minimum", build.binary("maximum", right, build.whole(1)), build.whole(len(grid) - 1))
    left = build.binary("sub", right, build.whole(1))
    points, rows = build.constant(grid), build.constant(table)
    begin = build.gather(points, left)
    inside = build.binary("sub", build.reshape(inverse, base.shape), begin)
    share = _wide(build, build.binary("div", inside, build.binary("sub", build.gather(points, right), begin)))
    first = build.mul(build.gather(rows, left), build.binary("sub", build.number(1.0), share))
    standard = build.add(first, build.mul(build.gather(rows, right), share))
    return build.add(location, build.mul(width, standard)), build.reshape(location, base.shape)


OUTPUTS: Final[Lowerings] = {PointOutput: _point, QuantileOutput: _quantile, StudentOutput: _student}


def softplus(build: Builder, x: Value) -> Value:
    """log(1 + exp(x)), which never overflows."""
    small = build.unary("exp", build.unary("neg", build.unary("abs", x)))
    return build.add(build.unary("relu", x), build.unary("log", build.add(small, build.number(1.0))))


def _wide(build: Builder, x: Value) -> Value:
    """x (…) -> (…, 1)."""
    return build.reshape(x, (*x.shape, 1))
