"""Building a graph: one method for each operation, which checks its inputs and infers the shape of its output.

An error here is a mistake of the lowering, never of a user, so it is an assertion. Weights are kept by identity: one
tensor is one array in all graphs of a program, however often it is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray
from torch import Tensor

from weft.export.graph.graph import BINARY, COMPARE, UNARY, Graph, Kind, Node, Size, Value
from weft.export.graph.shapes import Shape, broadcast, fixed, groups, needed, without
from weft.export.graph.weights import Weights, kind_of

Attributes = dict[str, Any]


class Builder:
    """Collects the nodes of one graph; `graph` ends it."""

    def __init__(self, name: str, weights: Weights, *, dtype: str = "float32") -> None:
        self.name, self.weights, self.dtype = name, weights, dtype
        self.inputs: dict[str, Value] = {}
        self._nodes: list[Node] = []
        self._constants: dict[int, tuple[Value, NDArray[Any]]] = {}
        self._count = 0

    def input(self, name: str, shape: Shape, kind: Kind = "float") -> Value:
        assert name not in self.inputs, name
        value = self.inputs[name] = Value(name, shape, kind)
        return value

    def constant(self, data: Tensor | NDArray[Any]) -> Value:
        """A weight, or another array that is the same in every run."""
        array = self.weights.of(data) if isinstance(data, Tensor) else data
        if id(array) not in self._constants:
            value = Value(f"constant_{len(self._constants)}", tuple(array.shape), kind_of(array))
            self._constants[id(array)] = value, array
        return self._constants[id(array)][0]

    def number(self, value: float) -> Value:
        return self.constant(self.weights.number(value, self.dtype))

    def whole(self, value: int) -> Value:
        """An int."""
        return self.constant(self.weights.number(value, "int64"))

    def graph(self, **outputs: Value) -> Graph:
        """The graph with these outputs, which take these names."""
        assert not outputs.keys() & self.inputs.keys(), "an output has the name of an input"
        made = {output for node in self._nodes for output in node.outputs}
        renamed: dict[Value, Value] = {}
        for name, value in outputs.items():
            copied = value if value in made and value not in renamed else self.reshape(value, value.shape)
            renamed[copied] = Value(name, value.shape, value.kind)
        nodes = tuple(
            Node(
                node.op,
                tuple(renamed.get(value, value) for value in node.inputs),
                tuple(renamed.get(value, value) for value in node.outputs),
                node.attributes,
                node.body,
            )
            for node in self._nodes
        )
        nodes = needed(nodes, renamed.values())
        used = {value for node in nodes for value in node.inputs}
        constants = {value: array for value, array in self._constants.values() if value in used}
        return Graph(self.name, tuple(self.inputs.values()), tuple(renamed.values()), nodes, constants)

    def inline(self, graph: Graph, inputs: Sequence[Value]) -> list[Value]:
        """The nodes of another graph, without a loop around them."""
        known = dict(zip(graph.inputs, inputs, strict=True))
        known |= {value: self.constant(array) for value, array in graph.constants.items()}
        for node in graph.nodes:
            outputs = tuple(self._value(node.op, output.shape, output.kind) for output in node.outputs)
            known |= zip(node.outputs, outputs, strict=True)
            given = tuple(known[value] for value in node.inputs)
            self._nodes.append(Node(node.op, given, outputs, node.attributes, node.body))
        return [known[value] for value in graph.outputs]

    def unary(self, op: str, x: Value) -> Value:
        assert op in UNARY, op
        assert (x.kind == "bool") == (op == "not"), (op, x)
        assert x.kind != "int" or op in ("neg", "abs"), (op, x)
        return self._node(op, (x,), x.shape, x.kind)

    def binary(self, op: str, a: Value, b: Value) -> Value:
        assert op in BINARY or op in COMPARE, op
        assert a.kind == b.kind, (op, a, b)
        assert (a.kind == "bool") == (op in ("and", "or")), (op, a)
        kind: Kind = "bool" if op in COMPARE else a.kind
        return self._node(op, (a, b), broadcast(a.shape, b.shape), kind)

    def add(self, a: Value, b: Value) -> Value:
        return self.binary("add", a, b)

    def mul(self, a: Value, b: Value) -> Value:
        return self.binary("mul", a, b)

    def scaled(self, x: Value, factor: float) -> Value:
        """x times a number."""
        return x if factor == 1.0 else self.mul(x, self.number(factor))

    def where(self, condition: Value, a: Value, b: Value) -> Value:
        assert condition.kind == "bool", (condition, a, b)
        assert a.kind == b.kind, (condition, a, b)
        shape = broadcast(condition.shape, broadcast(a.shape, b.shape))
        return self._node("where", (condition, a, b), shape, a.kind)

    def cast(self, x: Value, kind: Kind) -> Value:
        return x if x.kind == kind else self._node("cast", (x,), x.shape, kind, {"kind": kind})

    def spread(self, x: Value, like: Value) -> Value:
        """x (…), the same at all T positions of another value -> (T, …)."""
        zeros = self.mul(self.cast(self.positions(like), "float"), self.number(0.0))
        return self.add(self.reshape(zeros, (*zeros.shape, *(1 for _ in x.shape))), x)

    def linear(self, x: Value, weight: Tensor | Value, bias: Tensor | Value | None = None) -> Value:
        given = [self._constant(part) for part in (weight, bias) if part is not None]
        outputs, inputs = given[0].shape
        assert x.kind == "float", (x, given[0])
        assert x.shape[-1] == inputs, (x, given[0])
        assert len(given) == 1 or given[1].shape == (outputs,), given
        return self._node("linear", (x, *given), (*x.shape[:-1], outputs))

    def embed(self, ids: Value, table: Tensor | Value) -> Value:
        rows = self._constant(table)
        assert ids.kind == "int", (ids, rows)
        assert len(rows.shape) == 2, (ids, rows)
        return self._node("embed", (ids, rows), (*ids.shape, rows.shape[1]))

    def concat(self, values: Sequence[Value], axis: int = -1, *, joined: str | None = None) -> Value:
        first = values[0]
        if len(values) == 1:
            return first
        axis %= len(first.shape)
        sizes = [value.shape[axis] for value in values]
        for value in values:
            assert value.kind == first.kind, values
            assert without(value.shape, axis) == without(first.shape, axis), values
        total: Size | None = sum(size for size in sizes if isinstance(size, int))
        if any(isinstance(size, str) for size in sizes):
            assert joined is not None, "the length of a joined axis needs a name"
            total = joined
        assert total is not None
        shape = (*first.shape[:axis], total, *first.shape[axis + 1 :])
        return self._node("concat", tuple(values), shape, first.kind, {"axis": axis, "joined": joined})

    def slice(self, x: Value, start: int, stop: int, axis: int = -1) -> Value:
        axis %= len(x.shape)
        size = x.shape[axis]
        assert isinstance(size, int), (x, axis, start, stop)
        assert 0 <= start <= stop <= size, (x, axis, start, stop)
        if (start, stop) == (0, size):
            return x
        shape = (*x.shape[:axis], stop - start, *x.shape[axis + 1 :])
        return self._node("slice", (x,), shape, x.kind, {"axis": axis, "start": start, "stop": stop})

    def reshape(self, x: Value, shape: Shape) -> Value:
        assert groups(x.shape) == groups(shape), (x, shape)
        return self._node("reshape", (x,), shape, x.kind, {"shape": shape})

    def permute(self, x: Value, axes: Sequence[int]) -> Value:
        assert sorted(axes) == list(range(len(x.shape))), (x, axes)
        return self._node("permute", (x,), tuple(x.shape[axis] for axis in axes), x.kind, {"axes": tuple(axes)})

    def reduce(self, function: str, x: Value, axis: int) -> Value:
        assert function in ("sum", "mean", "max"), (function, x)
        assert x.kind != "bool", (function, x)
        assert x.kind == "float" or function != "mean", x
        axis %= len(x.shape)
        return self._node("reduce", (x,), without(x.shape, axis), x.kind, {"function": function, "axis": axis})

    def softmax(self, x: Value, axis: int = -1) -> Value:
        assert x.kind == "float", x
        return self._node("softmax", (x,), x.shape, "float", {"axis": axis % len(x.shape)})

    def cumulate(self, function: str, x: Value, axis: int) -> Value:
        assert function in ("sum", "max"), (function, x)
        assert x.kind != "bool", (function, x)
        return self._node("cumulate", (x,), x.shape, x.kind, {"function": function, "axis": axis % len(x.shape)})

    def layer_norm(self, x: Value, weight: Tensor, bias: Tensor, epsilon: float) -> Value:
        given = self.constant(weight), self.constant(bias)
        assert given[0].shape == given[1].shape == x.shape[-1:], (x, given)
        return self._node("layer_norm", (x, *given), x.shape, "float", {"epsilon": epsilon})

    def group_norm(self, x: Value, weight: Tensor, bias: Tensor, *, groups: int, epsilon: float) -> Value:
        given = self.constant(weight), self.constant(bias)
        assert len(x.shape) == 3, (x, given)
        assert given[0].shape == given[1].shape == x.shape[:1], (x, given)
        return self._node("group_norm", (x, *given), x.shape, "float", {"groups": groups, "epsilon": epsilon})

    def conv2d(self, x: Value, weight: Tensor, bias: Tensor | None, *, stride: int, padding: int) -> Value:
        given = [self.constant(part) for part in (weight, bias) if part is not None]
        outputs, inputs, kernel, _ = (int(size) for size in weight.shape)
        assert len(x.shape) == 3, (x, given)
        assert x.shape[0] == inputs, (x, given)
        sides = tuple((fixed(side) + 2 * padding - kernel) // stride + 1 for side in x.shape[1:])
        return self._node("conv2d", (x, *given), (outputs, *sides), "float", {"stride": stride, "padding": padding})

    def positions(self, x: Value) -> Value:
        return self._node("positions", (x,), x.shape[:1], "int")

    def length(self, x: Value) -> Value:
        return self._node("length", (x,), (), "int")

    def first(self, x: Value) -> Value:
        return self._node("first", (x,), x.shape[1:], x.kind)

    def last(self, x: Value) -> Value:
        return self._node("last", (x,), x.shape[1:], x.kind)

    def reverse(self, x: Value, *, keep: int = 0) -> Value:
        return self._node("reverse", (x,), x.shape, x.kind, {"keep": keep})

    def gather(self, x: Value, places: Value) -> Value:
        assert places.kind == "int", places
        assert len(places.shape) <= 1, places
        return self._node("gather", (x, places), (*places.shape, *x.shape[1:]), x.kind)

    def windows(self, x: Value, before: int, after: int) -> Value:
        time, size = x.shape
        return self._node(
            "windows", (x,), (time, (before + 1 + after) * fixed(size)), "float", {"before": before, "after": after}
        )

    def rotate(self, x: Value, places: Value, frequencies: Tensor | Value) -> Value:
        given = self._constant(frequencies)
        assert x.shape[:1] == places.shape, (x, places, given)
        assert 2 * fixed(given.shape[0]) == x.shape[2], (x, places, given)
        return self._node("rotate", (x, places, given), x.shape)

    def attend(
        self,
        query: Value,
        keys: Value,
        values: Value,
        *,
        weight: Tensor | None = None,
        scale: float = 1.0,
        causal: bool = False,
        hard: bool = False,
    ) -> tuple[Value, Value]:
        """The context and the weights; with `weight` the score is additive."""
        (queries, heads, _), (count, *_) = query.shape, keys.shape
        size = query.shape[2]
        assert keys.shape == (count, heads, size), (query, keys, values)
        assert values.shape[:2] == (count, heads), (query, keys, values)
        given = [query, keys, values] + ([] if weight is None else [self.constant(weight)])
        assert weight is None or given[3].shape == (size,), given
        outputs = (
            self._value("attend", (queries, heads, values.shape[2])),
            self._value("weights", (heads, queries, count)),
        )
        score = "dot" if weight is None else "additive"
        attributes = {"score": score, "scale": float(scale), "causal": causal, "hard": hard}
        self._nodes.append(Node("attend", tuple(given), outputs, attributes))
        return outputs

    def append(self, cache: Value, x: Value, axis: str) -> Value:
        """`axis` is the name of the length of the result."""
        assert cache.shape[1:] == x.shape[1:], (cache, x)
        assert cache.kind == x.kind, (cache, x)
        return self._node("append", (cache, x), (axis, *x.shape[1:]), x.kind)

    def recur(
        self, body: Graph, x: Value, states: Sequence[Value], *, reverse: bool = False, cell: Any = None
    ) -> tuple[Value, list[Value]]:
        """The outputs of all steps, and the states after the last."""
        inner, *before = body.inputs
        output, *after = body.outputs
        assert inner.shape == x.shape[1:], body
        assert len(before) == len(after) == len(states), body
        for given, read, written in zip(states, before, after, strict=True):
            assert given.shape == read.shape == written.shape, (given, read, written)
        outputs = (
            self._value("recur", (x.shape[0], *output.shape)),
            *(self._value("state", state.shape, state.kind) for state in states),
        )
        attributes = {"reverse": reverse, "cell": cell}
        self._nodes.append(Node("recur", (x, *states), outputs, attributes, body))
        return outputs[0], list(outputs[1:])

    def _constant(self, part: Tensor | Value) -> Value:
        return part if isinstance(part, Value) else self.constant(part)

    def _value(self, name: str, shape: Shape, kind: Kind = "float") -> Value:
        self._count += 1
        return Value(f"{name}_{self._count}", shape, kind)

    def _node(
        self,
        op: str,
        inputs: tuple[Value, ...],
        shape: Shape,
        kind: Kind = "float",
        attributes: Attributes | None = None,
    ) -> Value:
        output = self._value(op, shape, kind)
        self._nodes.append(Node(op, inputs, (output,), attributes or {}))
        return output
