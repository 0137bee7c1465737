"""Attention as ONNX nodes: scores, a mask, weights, and the mean of the values."""

from __future__ import annotations

import numpy as np

from weft.export.graph.graph import Node, Size
from weft.export.onnx.scope import LOWEST, Tensor
from weft.export.onnx.writer import GraphWriter


def write_attend(writer: GraphWriter, node: Node) -> list[Tensor]:
    """query (B, Tq, H, m), keys (B, Tk, H, m), values (B, Tk, H, v) -> context (B, Tq, H, v), weights
    (B, H, Tq, Tk)."""
    query, keys, values, *weight = writer.inputs(node)
    context, weights = node.outputs
    if node.attributes["score"] == "dot":
        scores = _dot(writer, query, keys, node.attributes["scale"])
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
    mixed = writer.add("MatMul", shares, _heads(writer, values))
    mixed = writer.add("Transpose", mixed, perm=[0, 2, 1, 3])
    return [writer.result(mixed, context, batched=True), writer.result(shares, weights, batched=True)]


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
