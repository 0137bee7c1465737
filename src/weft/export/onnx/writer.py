"""Writes a graph of a program as an ONNX graph for batches of rows.

Axes that are `ragged` are padded; their lengths are inputs named AXIS_lengths. Operations along such an axis take the
lengths into account, so that padding never changes a row; what stands past a row's end means nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Final

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto, helper

from weft.export.graph.graph import Graph, Node, Size, Value
from weft.export.onnx.scope import ARRAYS, ELEMENTS, IR_VERSION, OPSET, Scope, Tensor, Weights

BATCH: Final = "batch"
MICROSOFT: Final = "com.microsoft"


def lengths_name(axis: str) -> str:
    """The input with the lengths of the rows along a ragged axis."""
    return f"{axis}_lengths"


class GraphWriter(Scope):
    """Writes the nodes of one graph; `tensors` are the values written so far."""

    def __init__(
        self, weights: Weights, ragged: Collection[str], *, quantized: bool = False, outer: GraphWriter | None = None
    ) -> None:
        super().__init__(weights, outer)
        self.ragged, self.quantized = frozenset(ragged), quantized
        self.tensors: dict[Value, Tensor] = {}
        self.lengths: dict[str, str] = dict(outer.lengths) if outer else {}
        """The lengths of the rows, int (B), of each ragged axis."""
        self._holders: dict[str, tuple[str, int]] = dict(outer._holders) if outer else {}
        """A tensor that has an axis, and where."""
        self.graph: Graph | None = None
        self.ahead: dict[Node, list[Tensor]] = {}
        """Results that were written together with an earlier node."""
        self.pairs: dict[tuple[str, ...], str] = {}
        """Tensors whose concatenation there is already, (B, …) along the last axis."""

    def write(self, graph: Graph) -> None:
        """Write all nodes; the inputs must be in `tensors`."""
        from weft.export.onnx.operations import WRITERS

        self.constants(graph)
        self.graph = graph
        for node in graph.nodes:
            for value, tensor in zip(node.outputs, WRITERS[node.op](self, node), strict=True):
                self.set(value, tensor)

    def constants(self, graph: Graph) -> None:
        """Take the weights of a graph; numbers stay in the graph."""
        for value, array in graph.constants.items():
            name = self.constant(array.astype(ARRAYS[value.kind])) if array.size <= 1 else self.weight(array)
            self.tensors[value] = Tensor(name, value.shape, value.kind, batched=False)

    def whole(self, value: int) -> str:
        return self.constant(np.array(value, dtype=np.int64))

    def set(self, value: Value, tensor: Tensor) -> None:
        self.tensors[value] = tensor
        self.hold(tensor)

    def hold(self, tensor: Tensor) -> None:
        """Note the axes that a tensor has."""
        for place, size in enumerate(tensor.shape):
            if isinstance(size, str) and size not in self._holders:
                self._holders[size] = tensor.name, place + tensor.batched
        if tensor.batched and BATCH not in self._holders:
            self._holders[BATCH] = tensor.name, 0

    def get(self, value: Value) -> Tensor:
        return self.tensors[value]

    def inputs(self, node: Node) -> list[Tensor]:
        return [self.get(value) for value in node.inputs]

    def size(self, axis: Size) -> str:
        """The size of an axis, padding included, or of the batch, as ints (1)."""
        if isinstance(axis, int):
            return self.numbers([axis])
        name, place = self._holders[axis]
        return self.once(("size", axis), lambda: self.add("Shape", name, start=place, end=place + 1))

    def shape(self, sizes: Sequence[Size], *, batched: bool) -> str:
        """A shape as ints, for Expand."""
        if not batched and all(isinstance(size, int) for size in sizes):
            return self.numbers([size for size in sizes if isinstance(size, int)])
        parts = [self.size(BATCH)] if batched else []
        return self.add("Concat", *parts, *map(self.size, sizes), axis=0)

    def result(self, name: str, value: Value, *, batched: bool) -> Tensor:
        return Tensor(name, value.shape, value.kind, batched)

    def axes(self, name: str, *axes: int) -> str:
        """Put axes of size 1 in."""
        return self.add("Unsqueeze", name, self.numbers(axes))

    def batch(self, tensor: Tensor) -> str:
        """The name of a tensor with an axis of all rows."""
        if tensor.batched:
            return tensor.name
        shape = self.shape(tensor.shape, batched=True)
        return self.once(("batch", tensor.name), lambda: self.add("Expand", self.axes(tensor.name, 0), shape))

    def aligned(self, tensor: Tensor, rank: int) -> str:
        """A tensor with so many axes in a row that it broadcasts as it does for one row."""
        missing = rank - len(tensor.shape)
        if not tensor.batched or not missing:
            return tensor.name
        axes = range(1, missing + 1)
        return self.once(("aligned", tensor.name, rank), lambda: self.axes(tensor.name, *axes))

    def count(self, axis: str) -> str:
        """The lengths of all rows along an axis, int (B) where it is ragged, else int (1)."""
        return self.lengths.get(axis) or self.size(axis)

    def places(self, axis: Size) -> str:
        """0, 1, … along an axis, int (T)."""

        def make() -> str:
            end = self.add("Squeeze", self.size(axis), self.numbers([0]))
            return self.add("Range", self.whole(0), end, self.whole(1))

        return self.once(("places", axis), make)

    def mask(self, axis: Size) -> str | None:
        """Whether a position is real, bool (B, T); None for an axis without padding."""
        if not isinstance(axis, str) or axis not in self.lengths:
            return None
        lengths = self.lengths[axis]
        return self.once(("mask", axis), lambda: self.add("Less", self.places(axis), self.axes(lengths, 1)))

    def mask_at(self, tensor: Tensor, axis: int) -> str | None:
        """The mask of an axis of a batched tensor, broadcastable to it."""
        found = self.mask(tensor.shape[axis])
        if found is None or not tensor.batched:
            return None
        rank = len(tensor.shape)
        axes = [place + 1 for place in range(rank) if place != axis]
        if not axes:
            return found
        return self.once(("mask", tensor.shape[axis], rank, axis), lambda: self.axes(found, *axes))

    def cleared(self, tensor: Tensor, axis: int, fill: float = 0.0) -> str:
        """A tensor with another number past the end of each row."""
        mask = self.mask_at(tensor, axis)
        if mask is None:
            return tensor.name
        number = self.number(fill) if tensor.kind == "float" else self.whole(int(fill))
        return self.add("Where", mask, tensor.name, number)


def write_graph(
    graph: Graph, weights: Weights, ragged: Collection[str], *, quantized: bool = False
) -> tuple[ModelProto, list[str]]:
    """The ONNX model of a graph, without its weights, and their names."""
    writer = GraphWriter(weights, ragged, quantized=quantized)
    inputs = []
    axes = {size for value in graph.inputs for size in value.shape if isinstance(size, str)}
    for value in graph.inputs:
        inputs.append(describe(value.name, value))
        writer.set(value, Tensor(value.name, value.shape, value.kind, batched=True))
    for axis in sorted(axes & writer.ragged):
        writer.lengths[axis] = lengths_name(axis)
        inputs.append(helper.make_tensor_value_info(lengths_name(axis), ELEMENTS["int"], [BATCH]))
    writer.write(graph)
    for value in graph.outputs:
        tensor = writer.get(value)
        whole = writer.batch(tensor) if inputs else writer.axes(tensor.name, 0)
        writer.nodes.append(helper.make_node("Identity", [whole], [value.name], f"output_{value.name}"))
    outputs = [describe(value.name, value) for value in graph.outputs]
    proto = make_graph(writer, graph.name, inputs, outputs)
    read = read_in(proto)
    proto.initializer.extend(small for name, small in writer.small.items() if name in read)
    opsets = [helper.make_opsetid("", OPSET)]
    if any(node.domain == MICROSOFT for node in all_nodes(proto)):
        opsets.append(helper.make_opsetid(MICROSOFT, 1))
    model = helper.make_model(proto, opset_imports=opsets, ir_version=IR_VERSION, producer_name="weft")
    return model, [name for name in writer.used if name in read]


def describe(name: str, value: Value, *, batched: bool = True) -> ValueInfoProto:
    """An input or output with its named axes."""
    sizes = [BATCH] if batched else []
    return helper.make_tensor_value_info(name, ELEMENTS[value.kind], [*sizes, *value.shape])


def make_graph(
    writer: Scope, name: str, inputs: Sequence[ValueInfoProto], outputs: Sequence[ValueInfoProto]
) -> GraphProto:
    """The graph of all nodes that something reads; what is only renamed takes its name where it is made."""
    names = [one.name for one in outputs]
    nodes = live(renamed(live(writer.nodes, names), names), names)
    return helper.make_graph(nodes, name, inputs, outputs)


def live(nodes: Sequence[NodeProto], outputs: Collection[str]) -> list[NodeProto]:
    """The nodes that the outputs need."""
    wanted, kept = set(outputs), list[NodeProto]()
    for node in reversed(nodes):
        if wanted.intersection(node.output):
            kept.append(node)
            wanted.update(_reads(node))
    return kept[::-1]


def renamed(nodes: Sequence[NodeProto], outputs: Collection[str]) -> list[NodeProto]:
    """The nodes without an Identity that names an output which another node makes for it alone."""
    makers = {name: node for node in nodes for name in node.output if node.op_type != "Identity"}
    counts = Counter(name for node in nodes for name in _reads(node))
    kept = []
    for node in nodes:
        source = node.input[0] if node.op_type == "Identity" and node.output[0] in outputs else ""
        if source in makers and counts[source] == 1 and source not in outputs:
            made = makers[source].output
            made[list(made).index(source)] = node.output[0]
        else:
            kept.append(node)
    return kept


def _reads(node: NodeProto) -> Iterator[str]:
    """The names that a node reads, its bodies included."""
    yield from node.input
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield from read_in(attribute.g)


def read_in(graph: GraphProto) -> set[str]:
    """The names that the nodes and the outputs of a graph read."""
    return {name for node in graph.node for name in _reads(node)} | {output.name for output in graph.output}


def all_nodes(graph: GraphProto) -> Iterator[NodeProto]:
    """The nodes of a graph and of all bodies in it."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from all_nodes(attribute.g)
