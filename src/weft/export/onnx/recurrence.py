"""Recurrences over time: operators of ONNX where the cell is one, else a Scan over the body of the cell."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from weft.export.graph.graph import Node
from weft.export.onnx.native import Operator, operator_of
from weft.export.onnx.quantize import dynamic_lstm
from weft.export.onnx.scan import write_scan
from weft.export.onnx.scope import Tensor
from weft.export.onnx.writer import GraphWriter


def write_recur(writer: GraphWriter, node: Node) -> list[Tensor]:
    """x (B, T, I), states (B, H) -> outputs (B, T, H), last states (B, H)."""
    if node in writer.ahead:
        return writer.ahead.pop(node)
    operator = operator_of(node.attributes["cell"])
    if operator is None:
        return write_scan(writer, node)
    other = _other_direction(writer, node, operator)
    if other is None:
        return _write_operator(writer, [node], [operator])
    nodes = sorted((node, other[0]), key=lambda one: one.attributes["reverse"])
    operators = [operator, other[1]] if nodes[0] is node else [other[1], operator]
    found = _write_operator(writer, nodes, operators)
    each = {
        one: found[place : place + len(one.outputs)] for one, place in zip(nodes, (0, len(node.outputs)), strict=True)
    }
    writer.ahead[other[0]] = each[other[0]]
    return each[node]


def _other_direction(writer: GraphWriter, node: Node, operator: Operator) -> tuple[Node, Operator] | None:
    """A later recurrence over the same input the other way round, which one operator does with this one."""
    nodes = writer.graph.nodes if writer.graph else ()
    for later in nodes[nodes.index(node) + 1 :]:
        if later.op != "recur" or later.inputs[0] is not node.inputs[0]:
            continue
        found = operator_of(later.attributes["cell"])
        ready = all(value in writer.tensors for value in later.inputs)
        opposite = later.attributes["reverse"] != node.attributes["reverse"]
        if ready and opposite and found is not None and operator.pairs_with(found):
            return later, found
    return None


def _write_operator(writer: GraphWriter, nodes: list[Node], operators: list[Operator]) -> list[Tensor]:
    """The outputs and last states of one direction, or of two."""
    first, x = operators[0], writer.get(nodes[0].inputs[0])
    cells = tuple(node.attributes["cell"] for node in nodes)
    attributes = _attributes(nodes, operators)
    x_TBI = writer.once(("time first", x.name), lambda: writer.add("Transpose", writer.batch(x), perm=[1, 0, 2]))
    lengths = _lengths(writer, x)
    states = [_state(writer, nodes, number) for number in range(1, len(nodes[0].inputs))]
    count = 1 + len(states)
    if writer.quantized and first.name == "LSTM":
        names = dynamic_lstm(writer, cells, operators, [x_TBI, lengths, *states], attributes)
    else:
        parts = ("w", "r", "b") + (("p",) if first.p is not None else ())
        w, r, b, *p = (_weight(writer, cells, operators, part) for part in parts)
        if p:
            states = states or ["", ""]
        names = writer.add_many(first.name, x_TBI, w, r, b, lengths, *states, *p, outputs=count, **attributes)
    outputs, *last = names
    return _split(writer, nodes, outputs, last)


def _attributes(nodes: list[Node], operators: list[Operator]) -> dict[str, Any]:
    first = operators[0]
    direction = "bidirectional" if len(nodes) == 2 else "reverse" if nodes[0].attributes["reverse"] else "forward"
    attributes: dict[str, Any] = {"hidden_size": first.hidden, "direction": direction, **first.attributes}
    attributes["activations"] = list(first.activations) * len(nodes)
    for name in ("activation_alpha", "activation_beta"):
        if name in attributes:
            attributes[name] = attributes[name] * len(nodes)
    return attributes


def _weight(writer: GraphWriter, cells: tuple[Any, ...], operators: list[Operator], part: str) -> str:
    """The weights of all directions, which the cells keep in one array."""
    key = "+".join([part, *(str(id(cell)) for cell in cells)])
    return writer.use(
        writer.weights.made(cells[0], key, lambda: np.stack([getattr(operator, part) for operator in operators]))
    )


def _lengths(writer: GraphWriter, x: Tensor) -> str:
    axis = x.shape[0]
    if not isinstance(axis, str) or axis not in writer.lengths:
        return ""
    return writer.once(("int32", axis), lambda: writer.add("Cast", writer.lengths[axis], to=TensorProto.INT32))


def _state(writer: GraphWriter, nodes: list[Node], number: int) -> str:
    """The first states (D, B, H) of all directions; none where they are zero."""
    tensors = [writer.get(node.inputs[number]) for node in nodes]
    if all(is_zero(writer, tensor) for tensor in tensors):
        return ""
    names = [writer.axes(writer.batch(tensor), 0) for tensor in tensors]
    return names[0] if len(names) == 1 else writer.add("Concat", *names, axis=0)


def is_zero(writer: GraphWriter, tensor: Tensor) -> bool:
    """Whether a tensor is a constant of zeros."""
    array = writer.weights.arrays.get(tensor.name)
    return array is not None and not array.any()


def _split(writer: GraphWriter, nodes: list[Node], outputs: str, last: list[str]) -> list[Tensor]:
    """outputs (T, D, B, H) and states (D, B, H) as those of each node."""
    if len(nodes) == 1:
        rows = writer.add("Transpose", writer.add("Squeeze", outputs, writer.numbers([1])), perm=[1, 0, 2])
        names = [[rows], *([writer.add("Squeeze", state, writer.numbers([0]))] for state in last)]
    else:
        size = nodes[0].outputs[0].shape[1]
        turned = writer.add("Transpose", outputs, perm=[2, 0, 1, 3])
        joined = writer.add("Reshape", turned, writer.numbers([0, 0, -1]))
        halves = writer.add_many("Split", joined, writer.numbers([size, size]), outputs=2, axis=2)  # type: ignore[list-item]
        writer.pairs[tuple(halves)] = joined
        names = [halves]
        for state in last:
            names.append([writer.add("Gather", state, writer.whole(number), axis=0) for number in range(2)])
    return [
        writer.result(parts[place], value, batched=True)
        for place, node in enumerate(nodes)
        for parts, value in zip(names, node.outputs, strict=True)
    ]
