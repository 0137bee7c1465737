"""Attention as ONNX nodes: scores, a mask, weights, and the mean of the values."""

from __future__ import annotations

from typing import Final

import numpy as np

from weft.export.graph.graph import Node, Size
from weft.export.onnx.scope import LOWEST, Tensor
from weft.export.onnx.writer import GraphWriter

MAX_HEADS_AS_BLOCKS: Final = 8
"""Heads of a single query whose products are one: more multiply by zero for longer than a transposition takes."""


def write_attend(writer: GraphWriter, node: Node) -> list[Tensor]:
    """query (B, Tq, H, m), keys (B, Tk, H, m), values (B, Tk, H, v) -> context (B, Tq, H, v), weights
    (B, H, Tq, Tk)."""
    query, keys, values, *weight = writer.inputs(node)
    context, weights = node.outputs
    single = query.shape[0] == 1 and _heads_of(query)[0] <= MAX_HEADS_AS_BLOCKS
    if node.attributes["score"] == "dot":
        scores = (_dot_of_one if single else _dot)(writer, query, keys, node.attributes["scale"])
    else:
        scores = _additive(writer, query, keys, weight[0].name)
        if node.attributes["scale"] != 1.0:
            scores = writer.add("Mul", scores, writer.number(node.attributes["scale"]))
    may = _mask(writer, query.shape[0], keys, causal=node.attributes["causal"])
    if may is not None:
        scores = writer.add("Where", may, scores, writer.number(LOWEST))
    shares = _hard(writer, scores) if node.attributes["hard"] else writer.add("Softmax", scores, axis=-1)
    if may is not None:
        shares = writer.add("Where", may, shares, writer.number(0.0))
    if single:
        mixed = _mix_for_one(writer, shares, values)
    else:
        mixed = writer.add("MatMul", shares, _heads(writer, values))
        mixed = writer.add("Transpose", mixed, perm=[0, 2, 1, 3])
    return [writer.result(mixed, context, batched=True), writer.result(shares, weights, batched=True)]


def _heads_of(x: Tensor) -> tuple[int, int]:
    """The number of heads of x (T, H, m), and their size."""
    heads, size = x.shape[1:]
    assert isinstance(heads, int)
    assert isinstance(size, int)
    return heads, size


def _heads(writer: GraphWriter, x: Tensor, *, last: bool = False) -> str:
    """x (B, T, H, m) -> (B, H, T, m), or (B, H, m, T)."""
    perm = [0, 2, 3, 1] if last else [0, 2, 1, 3]
    return writer.once(("heads", x.name, last), lambda: writer.add("Transpose", writer.batch(x), perm=perm))


def _dot(writer: GraphWriter, query: Tensor, keys: Tensor, scale: float) -> str:
    """The query has fewer numbers than the scores, so it is scaled."""
    name = _heads(writer, query)
    if scale != 1.0:
        name = writer.add("Mul", name, writer.number(scale))
    return writer.add("MatMul", name, _heads(writer, keys, last=True))


def _dot_of_one(writer: GraphWriter, query: Tensor, keys: Tensor, scale: float) -> str:
    """The scores (B, H, 1, Tk) of one query. Its heads are the blocks of a diagonal, so that keys, of which a step
    reads all, need not be transposed: (B, Tk, H·m) · (B, H·m, H)."""
    heads, size = _heads_of(query)
    name = writer.batch(query)
    if scale != 1.0:
        name = writer.add("Mul", name, writer.number(scale))
    column = writer.add("Reshape", name, writer.numbers([0, heads, size, 1]))
    blocks = writer.add("Mul", column, _diagonal(writer, heads, 1))
    blocks = writer.add("Reshape", blocks, writer.numbers([0, heads * size, heads]))
    scores = writer.add("MatMul", _side_by_side(writer, keys), blocks)
    return writer.add("Unsqueeze", writer.add("Transpose", scores, perm=[0, 2, 1]), writer.numbers([2]))


def _mix_for_one(writer: GraphWriter, shares: str, values: Tensor) -> str:
    """shares (B, H, 1, Tk), values (B, Tk, H, v) -> the mean of the values of one query (B, 1, H, v): each head weighs
    the values of all heads, (B, H, Tk) · (B, Tk, H·v), and keeps its own."""
    heads, size = _heads_of(values)
    each = writer.add("MatMul", writer.add("Squeeze", shares, writer.numbers([2])), _side_by_side(writer, values))
    each = writer.add("Reshape", each, writer.numbers([0, heads, heads, size]))
    own = writer.add("Mul", each, _diagonal(writer, heads, 2))
    return writer.add("ReduceSum", own, writer.numbers([1]), keepdims=1)


def _side_by_side(writer: GraphWriter, x: Tensor) -> str:
    """x (B, T, H, m) -> (B, T, H·m), which moves nothing."""
    heads, size = _heads_of(x)
    shape = writer.numbers([0, 0, heads * size])
    return writer.once(("side by side", x.name), lambda: writer.add("Reshape", writer.batch(x), shape))


def _diagonal(writer: GraphWriter, heads: int, place: int) -> str:
    """1 where two heads are the same, 0 elsewhere: (H, H) with an axis of 1 at a place."""
    return writer.constant(np.expand_dims(np.eye(heads, dtype=np.float32), place))


def _additive(writer: GraphWriter, query: Tensor, keys: Tensor, weight: str) -> str:
    """w · tanh(q + k)."""
    each = writer.add("Unsqueeze", _heads(writer, query), writer.numbers([3]))
    every = writer.add("Unsqueeze", _heads(writer, keys), writer.numbers([2]))
    added = writer.add("Tanh", writer.add("Add", each, every))
    return writer.add("Squeeze", writer.add("MatMul", added, writer.axes(weight, 1)), writer.numbers([-1]))


def _hard(writer: GraphWriter, scores: str) -> str:
    """1 at the best key of each query, 0 elsewhere."""
    count = writer.add("Shape", scores, start=3, end=4)
    best = writer.add("ArgMax", scores, axis=-1, keepdims=0)
    return writer.add("OneHot", best, count, writer.constant(np.array([0, 1], dtype=np.float32)), axis=-1)


def _mask(writer: GraphWriter, queries: Size, keys: Tensor, *, causal: bool) -> str | None:
    """Where a query may look, broadcastable to (B, H, Tq, Tk)."""
    count, parts = keys.shape[0], []
    real = writer.mask(count)
    if real is not None:
        parts.append(writer.once(("keys", count), lambda: writer.axes(real, 1, 2)))
    if causal and queries != 1:
        parts.append(writer.once(("causal", queries, count), lambda: _causal(writer, queries, count)))
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else writer.add("And", *parts)


def _causal(writer: GraphWriter, queries: Size, count: Size) -> str:
    """key <= query + Tk - Tq, bool (Tq, Tk), or (B, 1, Tq, Tk) where the lengths differ from row to row."""
    each, every = writer.axes(writer.places(queries), 1), writer.axes(writer.places(count), 0)
    if queries == count:
        return writer.add("LessOrEqual", every, each)
    ahead = writer.add(
        "Sub", *(writer.count(size) if isinstance(size, str) else writer.size(size) for size in (count, queries))
    )
    if {queries, count} & writer.lengths.keys():
        ahead = writer.axes(ahead, 1, 2, 3)
    return writer.add("LessOrEqual", every, writer.add("Add", each, ahead))
