"""Torch's matrix products in the step of a cell, in operations of a graph: linear maps, or sums of products."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor, fx

from weft.export.graph.cell import row_axis
from weft.export.graph.graph import Value
from weft.nn.recurrent.engine.trace import Untraceable

if TYPE_CHECKING:
    from weft.export.graph.cell import _Lowering

aten = torch.ops.aten


def _row_product(low: _Lowering, left: Any, right: Any, bias: Tensor | None = None) -> Value:
    """A row (K) and a matrix (K, N) for all rows, or a matrix (N, K) and a column (K)."""
    if isinstance(left, Value) and isinstance(right, Tensor):
        return low.build.linear(left, right.t(), bias)
    assert isinstance(left, Tensor)
    assert isinstance(right, Value)
    return low.build.linear(right, left, bias)


def _mm(low: _Lowering, node: fx.Node, left: Any, right: Any) -> Value:
    if isinstance(left, Value) and isinstance(right, Value):
        raise Untraceable("mm mixes the rows of a batch")
    return _row_product(low, left, right)


def _addmm(
    low: _Lowering, node: fx.Node, bias: Any, left: Any, right: Any, *, beta: float = 1, alpha: float = 1
) -> Value:
    if isinstance(left, Value) and isinstance(right, Value):
        raise Untraceable("addmm mixes the rows of a batch")
    if isinstance(bias, Tensor) and bias.dim() == 1 and isinstance(left, Value) and beta == alpha == 1:
        return _row_product(low, left, right, bias.contiguous())
    product = low.build.scaled(_row_product(low, left, right), float(alpha))
    if isinstance(bias, Tensor) and bias.dim() == 2:
        bias = bias.squeeze(row_axis(node))
    return low.build.add(product, low.build.scaled(low.value(bias), float(beta)))


def _linear(low: _Lowering, node: fx.Node, x: Value, weight: Any, bias: Any = None) -> Value:
    if not isinstance(weight, Tensor) or not (bias is None or isinstance(bias, Tensor)):
        raise Untraceable("linear has a weight that differs between rows")
    return low.build.linear(x, weight, bias)


def _mv(low: _Lowering, node: fx.Node, left: Any, right: Any) -> Value:
    if not isinstance(left, Value) or not isinstance(right, Tensor):
        raise Untraceable("mv mixes the rows of a batch")
    return low.build.reshape(low.build.linear(left, right[None]), ())


def _bmm(low: _Lowering, node: fx.Node, left: Any, right: Any) -> Value:
    build, rows = low.build, row_axis(node)
    if rows == 0:
        if (fixed := low.fixed.get(right)) is not None:
            return build.linear(low.value(left), fixed.t())
        a, b = low.value(left), low.value(right)
        (q, k), (_, m) = a.shape, b.shape
        products = build.mul(build.reshape(a, (q, k, 1)), build.reshape(b, (1, k, m)))
        return build.reduce("sum", products, 1)
    moving, still = (left, right) if rows == 1 else (right, left)
    if not isinstance(moving, Value) or not isinstance(still, Tensor):
        raise Untraceable("bmm mixes the rows of a batch")
    parts = []
    for number in range(still.size(0)):
        part = build.reshape(build.slice(moving, number, number + 1, 0), moving.shape[1:])
        weight = still[number].t() if rows == 1 else still[number]
        parts.append(build.reshape(build.linear(part, weight), (1, weight.size(0))))
    return build.concat(parts, 0)


def _baddbmm(
    low: _Lowering, node: fx.Node, bias: Any, left: Any, right: Any, *, beta: float = 1, alpha: float = 1
) -> Value:
    product = low.build.scaled(_bmm(low, node, left, right), float(alpha))
    if isinstance(bias, Tensor) and bias.dim() == 3:
        bias = bias.squeeze(row_axis(node))
    return low.build.add(product, low.build.scaled(low.value(bias), float(beta)))


PRODUCTS: Final[dict[Any, Callable[..., Value]]] = {
    aten.mm.default: _mm,
    aten.addmm.default: _addmm,
    aten.linear.default: _linear,
    aten.mv.default: _mv,
    aten.bmm.default: _bmm,
    aten.baddbmm.default: _baddbmm,
}
"""Operations by what torch calls them."""
