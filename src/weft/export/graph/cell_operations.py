"""Torch's operations in the step of a cell, each written in operations of a graph on one row.

Every function is given the lowering, the node, and its arguments in the place of tensors: values of a row, or tensors
that are the same for all rows. An axis of a batch is counted without that of the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor, fx

from weft.export.graph.cell import name_of, row_axis, shape_of
from weft.export.graph.cell_pointwise import POINTWISE
from weft.export.graph.cell_products import PRODUCTS
from weft.export.graph.graph import Value
from weft.nn.recurrent.engine.trace import Untraceable

if TYPE_CHECKING:
    from weft.export.graph.cell import _Lowering

aten = torch.ops.aten

Handler = Callable[..., Any]


def _input(node: fx.Node, number: int = 0) -> fx.Node:
    """The node that an argument comes from."""
    given = node.args[number]
    assert isinstance(given, fx.Node)
    return given


def _axis(node: fx.Node, dim: int, of: fx.Node | None = None) -> int:
    """An axis of a node's tensor, counted without that of the rows."""
    of = of or _input(node)
    dim %= len(of.meta["shape"])
    rows = row_axis(of)
    if dim == rows:
        raise Untraceable(f"{name_of(node)} mixes the rows of a batch")
    return dim - (dim > rows)


def _shaped(low: _Lowering, node: fx.Node, x: Value, *_: Any, **__: Any) -> Value:
    """An operation that changes the axes and not the order of numbers."""
    before, after = _input(node), node
    sizes = [prod(each.meta["shape"][: row_axis(each)]) for each in (before, after)]
    if sizes[0] != sizes[1]:
        raise Untraceable(f"{name_of(node)} mixes the rows of a batch")
    return low.build.reshape(x, shape_of(node))


def _same(low: _Lowering, node: fx.Node, x: Value, *_: Any, **__: Any) -> Value:
    return x


def _convert(low: _Lowering, node: fx.Node, x: Value, *_: Any, dtype: torch.dtype | None = None, **__: Any) -> Value:
    if dtype is None:
        return x
    if dtype.is_floating_point and dtype != low.dtype and x.kind == "float":
        raise Untraceable(f"it computes in {str(dtype).removeprefix('torch.')}")
    return low.build.cast(x, "float" if dtype.is_floating_point else "bool" if dtype == torch.bool else "int")


def _permute(low: _Lowering, node: fx.Node, x: Value, axes: Sequence[int]) -> Value:
    rank, rows = len(node.meta["shape"]), row_axis(_input(node))
    kept = [axis % rank for axis in axes if axis % rank != rows]
    return low.build.permute(x, [axis - (axis > rows) for axis in kept])


def _transpose(low: _Lowering, node: fx.Node, x: Value, first: int = 0, second: int = 1) -> Value:
    axes = list(range(len(node.meta["shape"])))
    axes[first], axes[second] = axes[second], axes[first]
    return _permute(low, node, x, axes)


def _expand(low: _Lowering, node: fx.Node, x: Value, *_: Any, **__: Any) -> Value:
    shape = shape_of(node)
    given = _input(node).meta["shape"]
    rows = row_axis(node) - (len(node.meta["shape"]) - len(given))
    if row_axis(_input(node)) != rows:
        raise Untraceable(f"{name_of(node)} mixes the rows of a batch")
    wide = (1,) * (len(shape) - len(x.shape)) + tuple(int(size) for size in x.shape)
    return low.value(low.build.reshape(x, wide), shape)


def _pick(low: _Lowering, x: Value, axis: int, places: Sequence[int]) -> Value:
    """The given places of an axis, in that order."""
    return low.build.concat([low.build.slice(x, place, place + 1, axis) for place in places], axis)


def _select(low: _Lowering, node: fx.Node, x: Value, dim: int, index: int) -> Value:
    axis = _axis(node, dim)
    index %= int(x.shape[axis])
    return low.build.reshape(low.build.slice(x, index, index + 1, axis), shape_of(node))


def _slice(
    low: _Lowering,
    node: fx.Node,
    x: Value,
    dim: int = 0,
    start: int | None = None,
    stop: int | None = None,
    step: int = 1,
) -> Value:
    if node.meta["shape"] == _input(node).meta["shape"]:
        return x
    axis = _axis(node, dim)
    size = int(x.shape[axis])
    places = range(size)[slice(start, stop, step)]
    if step == 1:
        return low.build.slice(x, places.start, max(places.start, places.stop), axis)
    return _pick(low, x, axis, places)


def _split(low: _Lowering, node: fx.Node, x: Value, sizes: int | Sequence[int], dim: int = 0) -> list[Value]:
    axis = _axis(node, dim)
    total = int(x.shape[axis])
    if isinstance(sizes, int):
        sizes = [min(sizes, total - start) for start in range(0, total, sizes)]
    ends = [sum(sizes[: number + 1]) for number in range(len(sizes))]
    return [low.build.slice(x, end - size, end, axis) for end, size in zip(ends, sizes, strict=True)]


def _unbind(low: _Lowering, node: fx.Node, x: Value, dim: int = 0) -> list[Value]:
    axis = _axis(node, dim)
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    return [low.build.reshape(part, shape) for part in _split(low, node, x, 1, dim)]


def _cat(low: _Lowering, node: fx.Node, parts: Sequence[Any], dim: int = 0) -> Value:
    axis = _axis(node, dim, node)
    values = []
    for part, given in zip(parts, node.args[0], strict=True):  # type: ignore[arg-type]
        value = low.value(part)
        if isinstance(part, Value):
            values.append(value)
            continue
        raise Untraceable(f"cat joins {given} to the rows of a batch")
    return low.build.concat(values, axis)


def _stack(low: _Lowering, node: fx.Node, parts: Sequence[Any], dim: int = 0) -> Value:
    axis = _axis(node, dim, node)
    values = [low.value(part) for part in parts]
    shape = (*values[0].shape[:axis], 1, *values[0].shape[axis:])
    return low.build.concat([low.build.reshape(value, shape) for value in values], axis)


def _flip(low: _Lowering, node: fx.Node, x: Value, dims: Sequence[int]) -> Value:
    for dim in dims:
        axis = _axis(node, dim)
        x = _pick(low, x, axis, range(int(x.shape[axis]))[::-1])
    return x


def _roll(low: _Lowering, node: fx.Node, x: Value, shifts: Sequence[int], dims: Sequence[int] = ()) -> Value:
    if len(dims) != len(shifts):
        raise Untraceable("roll mixes the rows of a batch")
    for dim, shift in zip(dims, shifts, strict=True):
        axis = _axis(node, dim)
        size = int(x.shape[axis])
        x = _pick(low, x, axis, [(place - shift) % size for place in range(size)])
    return x


def _index(low: _Lowering, node: fx.Node, x: Value, places: Sequence[Tensor | None]) -> Value:
    chosen = [(dim, part) for dim, part in enumerate(places) if part is not None]
    if len(chosen) != 1 or not isinstance(chosen[0][1], Tensor) or chosen[0][1].dim() != 1:
        raise Untraceable("it picks columns by the values of a tensor")
    dim, part = chosen[0]
    return _pick(low, x, _axis(node, dim), part.tolist())


def _index_select(low: _Lowering, node: fx.Node, x: Value, dim: int, places: Tensor) -> Value:
    if not isinstance(places, Tensor):
        raise Untraceable("it picks columns by the values of a tensor")
    return _pick(low, x, _axis(node, dim), places.tolist())


def _reduced(function: str) -> Handler:
    def reduce(
        low: _Lowering,
        node: fx.Node,
        x: Value,
        dims: int | Sequence[int] | None = None,
        keepdim: bool = False,
        **_: Any,
    ) -> Value:
        if dims is None or dims == []:
            raise Untraceable(f"{name_of(node)} mixes the rows of a batch")
        axes = sorted({_axis(node, dim) for dim in ([dims] if isinstance(dims, int) else dims)}, reverse=True)
        x = low.build.cast(x, "float")
        for axis in axes:
            if function == "min":
                x = low.build.unary("neg", low.build.reduce("max", low.build.unary("neg", x), axis))
            else:
                x = low.build.reduce(function, x, axis)
        return low.build.reshape(x, shape_of(node))

    return reduce


def _norm(
    low: _Lowering, node: fx.Node, x: Value, order: float = 2, dims: Any = None, keepdim: bool = False, **_: Any
) -> Value:
    if order != 2:
        raise Untraceable(f"it takes a norm of order {order}")
    return low.build.unary("sqrt", _reduced("sum")(low, node, low.build.mul(x, x), dims, keepdim))


def _softmax(low: _Lowering, node: fx.Node, x: Value, dim: int, *_: Any) -> Value:
    return low.build.softmax(x, _axis(node, dim))


def _log_softmax(low: _Lowering, node: fx.Node, x: Value, dim: int, *_: Any) -> Value:
    build, axis = low.build, _axis(node, dim)
    kept = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    x = build.binary("sub", x, build.reshape(build.reduce("max", x, axis), kept))
    total = build.reduce("sum", build.unary("exp", x), axis)
    return build.binary("sub", x, build.reshape(build.unary("log", total), kept))


def _layer_norm(
    low: _Lowering, node: fx.Node, x: Value, shape: Sequence[int], weight: Any, bias: Any, epsilon: float
) -> list[Any]:
    if len(shape) != 1 or any(part is not None and not isinstance(part, Tensor) for part in (weight, bias)):
        raise Untraceable("it normalises over several axes")
    one = torch.ones(shape[0], dtype=low.dtype)
    weight, bias = (one if weight is None else weight), (0 * one if bias is None else bias)
    return [low.build.layer_norm(x, weight, bias, epsilon), None, None]


def _filled(value: float | None) -> Handler:
    def fill(low: _Lowering, node: fx.Node, like: Any, number: Any = None, *_: Any, **__: Any) -> Value:
        full = torch.full(shape_of(node), float(number if value is None else value), dtype=low.dtype)
        constant = low.build.constant(full)
        low.fixed[constant] = full
        return constant

    return fill


OPERATIONS: Final[dict[Any, Handler]] = {
    **POINTWISE,
    **dict.fromkeys(
        (aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.unsqueeze.default), _shaped
    ),
    **dict.fromkeys((aten.squeeze.dim, aten.squeeze.dims, aten.squeeze.default), _shaped),
    **dict.fromkeys((aten.clone.default, aten.detach.default, aten.alias.default, aten.lift_fresh.default), _same),
    aten._to_copy.default: _convert,
    aten.permute.default: _permute,
    aten.transpose.int: _transpose,
    aten.t.default: _transpose,
    aten.expand.default: _expand,
    aten.select.int: _select,
    aten.slice.Tensor: _slice,
    aten.split.Tensor: _split,
    aten.split_with_sizes.default: _split,
    aten.unbind.int: _unbind,
    aten.cat.default: _cat,
    aten.stack.default: _stack,
    aten.flip.default: _flip,
    aten.roll.default: _roll,
    aten.index.Tensor: _index,
    aten.index_select.default: _index_select,
    **PRODUCTS,
    aten.sum.dim_IntList: _reduced("sum"),
    aten.mean.dim: _reduced("mean"),
    aten.amax.default: _reduced("max"),
    aten.amin.default: _reduced("min"),
    aten.linalg_vector_norm.default: _norm,
    aten._softmax.default: _softmax,
    aten._log_softmax.default: _log_softmax,
    aten.native_layer_norm.default: _layer_norm,
    aten.zeros_like.default: _filled(0.0),
    aten.ones_like.default: _filled(1.0),
    aten.full_like.default: _filled(None),
}
"""Operations by what torch calls them."""
