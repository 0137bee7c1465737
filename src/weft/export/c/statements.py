"""The statements of C for every operation that is not elementwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from weft.export.c.formulas import VARIABLES, c_type, literal
from weft.export.c.sizes import elements, length, times
from weft.export.graph import Graph, Node, Value

if TYPE_CHECKING:
    from weft.export.c.graph_writer import GraphWriter


class Text:
    """Appends the steps of one node to those of a graph."""

    def __init__(self, writer: GraphWriter) -> None:
        self.writer = writer

    def call(self, kernel: str, outputs: list[Value], reads: list[Value], *arguments: str) -> None:
        """A call of a kernel, whose first arguments are the outputs."""
        self.writer.kernels.add(kernel)
        given = ", ".join([*(self.to(value) for value in outputs), *arguments])
        self.writer.add([f"{kernel}({given});"], reads, outputs)

    def at(self, value: Value) -> str:
        return self.writer.at(value)

    def to(self, value: Value) -> str:
        """The address to which a value is written."""
        return self.writer.pointers.get(value) or f"@{self.writer.mark(value)}@"

    def copy(self, to: str, value: Value, source: Value) -> str:
        return f"memcpy({to}, {self.at(source)}, (size_t)({elements(value.shape)}) * 4);"

    def linear(self, node: Node) -> None:
        x, weight, *bias = node.inputs
        rows, inputs, outputs = elements(x.shape[:-1]), x.shape[-1], node.outputs[0].shape[-1]
        given = self.at(bias[0]) if bias else "0"
        sizes = (given, rows, str(inputs), str(outputs))
        name, scale = self.writer.constants.packed(self.writer.arrays[weight])
        scales = [scale] if scale else []
        self.call("linear8" if scale else "linear", [*node.outputs], [x, *bias], self.at(x), name, *scales, *sizes)

    def embed(self, node: Node) -> None:
        ids, table = node.inputs
        entries, size = self.writer.arrays[table].shape
        name, scale = self.writer.constants.packed(self.writer.arrays[table])
        scales = [scale] if scale else []
        sizes = (elements(ids.shape), str(entries), str(size))
        self.call("embed8" if scale else "embed", [*node.outputs], [ids], self.at(ids), name, *scales, *sizes)

    def concat(self, node: Node) -> None:
        (output,), axis = node.outputs, node.attributes["axis"]
        outer, inner = elements(output.shape[:axis]), elements(output.shape[axis + 1 :])
        whole = times(length(output.shape[axis]), inner)
        lines, before, indent = [], "0", ""
        if outer != "1":
            lines, indent = [f"for (long i = 0; i < {outer}; i++) {{"], "    "
        for value in node.inputs:
            part = times(length(value.shape[axis]), inner)
            to = " + ".join(
                text for text in (self.to(output), f"i * ({whole})" * bool(indent), before) if text not in ("", "0")
            )
            source = f"{self.at(value)} + i * ({part})" if indent else self.at(value)
            lines.append(f"{indent}memcpy({to}, {source}, (size_t)({part}) * 4);")
            before = part if before == "0" else f"{before} + {part}"
        self.writer.add([*lines, *["}"] * bool(indent)], [*node.inputs], [output])

    def slice(self, node: Node) -> None:
        (x,), (output,) = node.inputs, node.outputs
        axis, start = node.attributes["axis"], node.attributes["start"]
        outer, inner = elements(x.shape[:axis]), elements(x.shape[axis + 1 :])
        begin = times(str(start), inner)
        if outer == "1":
            self.writer.alias(output, x, f"({self.at(x)} + {begin})")
            return
        whole, part = times(length(x.shape[axis]), inner), times(length(output.shape[axis]), inner)
        lines = [
            f"for (long i = 0; i < {outer}; i++)",
            f"    memcpy({self.to(output)} + i * ({part}), {self.at(x)} + i * ({whole}) + {begin}, "
            f"(size_t)({part}) * 4);",
        ]
        self.writer.add(lines, [x], [output])

    def reshape(self, node: Node) -> None:
        self.writer.alias(node.outputs[0], node.inputs[0])

    def permute(self, node: Node) -> None:
        (x,), (output,), axes = node.inputs, node.outputs, node.attributes["axes"]
        lines, indent, index, stride = [], "", [], "1"
        for name, size in zip(VARIABLES, output.shape, strict=False):
            lines.append(f"{indent}for (long {name} = 0; {name} < {length(size)}; {name}++)")
            indent += "    "
        strides = {axis: elements(x.shape[axis + 1 :]) for axis in axes}
        source = " + ".join(f"{VARIABLES[number]} * ({strides[axis]})" for number, axis in enumerate(axes))
        for number in reversed(range(len(output.shape))):
            index.append(VARIABLES[number] if stride == "1" else f"{VARIABLES[number]} * ({stride})")
            stride = times(length(output.shape[number]), stride)
        lines.append(f"{indent}o[{' + '.join(reversed(index)) or '0'}] = a[{source or '0'}];")
        head = [
            f"    {c_type(x)} *restrict o = {self.to(output)};",
            f"    const {c_type(x)} *restrict a = {self.at(x)};",
        ]
        self.writer.add(["{", *head, *(f"    {line}" for line in lines), "}"], [x], [output])

    def _along(self, x: Value, axis: int) -> tuple[str, str, str]:
        return elements(x.shape[:axis]), length(x.shape[axis]), elements(x.shape[axis + 1 :])

    def reduce(self, node: Node) -> None:
        (x,), function = node.inputs, node.attributes["function"]
        suffix = "_whole" if x.kind != "float" else ""
        self.call(
            f"reduce_{function}{suffix}", [*node.outputs], [x], self.at(x), *self._along(x, node.attributes["axis"])
        )

    def softmax(self, node: Node) -> None:
        (x,) = node.inputs
        self.call("softmax", [*node.outputs], [x], self.at(x), *self._along(x, node.attributes["axis"]))

    def cumulate(self, node: Node) -> None:
        (x,), function = node.inputs, node.attributes["function"]
        suffix = "_whole" if x.kind != "float" else ""
        sizes = self._along(x, node.attributes["axis"])
        self.call(f"cumulate_{function}{suffix}", [*node.outputs], [x], self.at(x), *sizes)

    def layer_norm(self, node: Node) -> None:
        x, weight, bias = node.inputs
        sizes = (elements(x.shape[:-1]), str(x.shape[-1]), literal(node.attributes["epsilon"], "float"))
        self.call("layer_norm", [*node.outputs], [x], self.at(x), self.at(weight), self.at(bias), *sizes)

    def group_norm(self, node: Node) -> None:
        x, weight, bias = node.inputs
        groups, epsilon = node.attributes["groups"], node.attributes["epsilon"]
        sizes = (str(x.shape[0]), elements(x.shape[1:]), str(groups), literal(epsilon, "float"))
        self.call("group_norm", [*node.outputs], [x], self.at(x), self.at(weight), self.at(bias), *sizes)

    def conv2d(self, node: Node) -> None:
        x, weight, *bias = node.inputs
        channels, height, width = map(length, x.shape)
        outputs, _, side, _ = self.writer.arrays[weight].shape
        given = self.at(bias[0]) if bias else "0"
        sizes = (channels, height, width, str(outputs), str(side), str(node.attributes["stride"]))
        padding = str(node.attributes["padding"])
        self.call("conv2d", [*node.outputs], [x, *bias], self.at(x), self.at(weight), given, *sizes, padding)

    def positions(self, node: Node) -> None:
        (output,) = node.outputs
        count = length(output.shape[0])
        line = f"for (long i = 0; i < {count}; i++) ({self.to(output)})[i] = (int32_t)i;"
        self.writer.add([line], [], [output])

    def length(self, node: Node) -> None:
        (output,) = node.outputs
        self.writer.add([f"*{self.to(output)} = (int32_t){length(node.inputs[0].shape[0])};"], [], [output])

    def first(self, node: Node) -> None:
        self._end(node, "0")

    def last(self, node: Node) -> None:
        count = length(node.inputs[0].shape[0])
        self._end(node, f"({count} - 1)")

    def _end(self, node: Node, place: str) -> None:
        (x,), (output,) = node.inputs, node.outputs
        size, count = elements(output.shape), length(x.shape[0])
        lines = [
            f"if ({count} > 0) memcpy({self.to(output)}, {self.at(x)} + {times(place, size)}, (size_t)({size}) * 4);",
            f"else memset({self.to(output)}, 0, (size_t)({size}) * 4);",
        ]
        self.writer.add(lines, [x], [output])

    def reverse(self, node: Node) -> None:
        (x,) = node.inputs
        size = f"(size_t)({elements(x.shape[1:])}) * 4"
        self.call("reverse", [*node.outputs], [x], self.at(x), length(x.shape[0]), str(node.attributes["keep"]), size)

    def gather(self, node: Node) -> None:
        x, places = node.inputs
        sizes = (elements(places.shape), length(x.shape[0]), f"(size_t)({elements(x.shape[1:])}) * 4")
        self.call("gather", [*node.outputs], [x, places], self.at(x), self.at(places), *sizes)

    def windows(self, node: Node) -> None:
        (x,) = node.inputs
        sizes = (length(x.shape[0]), length(x.shape[1]), str(node.attributes["before"]), str(node.attributes["after"]))
        self.call("windows", [*node.outputs], [x], self.at(x), *sizes)

    def rotate(self, node: Node) -> None:
        x, places, frequencies = node.inputs
        given = (self.at(x), self.at(places), self.at(frequencies), length(x.shape[0]), length(x.shape[1]))
        self.call("rotate", [*node.outputs], [x, places], *given, str(int(x.shape[2]) // 2))

    def attend(self, node: Node) -> None:
        query, keys, values, *w = node.inputs
        context, weights = node.outputs
        shown = self.writer.used[weights] > 0
        row = weights if shown else Value(f"{weights.name} of one query", (keys.shape[0],))
        about = node.attributes
        given = [self.at(value) for value in (query, keys, values)] + [self.at(w[0]) if w else "0"]
        sizes = [
            length(size) for size in (query.shape[0], keys.shape[0], query.shape[1], query.shape[2], values.shape[2])
        ]
        flags = [str(int(flag)) for flag in (about["causal"], about["hard"], shown)]
        arguments = (*given, *sizes, literal(about["scale"], "float"), *flags)
        self.call("attend", [context, row], [query, keys, values], *arguments)

    def append(self, node: Node) -> None:
        cache, x = node.inputs
        sizes = [f"(size_t)({elements(value.shape)}) * 4" for value in (cache, x)]
        self.call("append", [*node.outputs], [cache, x], self.at(cache), self.at(x), *sizes)

    def recur(self, node: Node) -> None:
        """A loop over time. The states after it are those of every step: the next ones are copied over them."""
        assert node.body is not None
        writer, body = self.writer, fresh(node.body)
        x, *states = node.inputs
        output, *last = node.outputs
        count, width, out_width = length(x.shape[0]), elements(x.shape[1:]), elements(output.shape[1:])
        body, whole = self._hoist(body, x)
        number = len(writer.steps)
        step, at = f"step{number}", f"at{number}"
        time = f"{count} - 1 - {step}" if node.attributes["reverse"] else step
        head = [self.copy(self.to(after), after, before) for after, before in zip(last, states, strict=True)]
        head.append(f"for (long {step} = 0; {step} < {count}; {step}++) {{")
        writer.add([*head, f"    const long {at} = {time};"], [x, *states], [output, *last])
        first = len(writer.steps)
        inner, *inner_states = body.inputs
        writer.alias(inner, x, f"({self.at(x)} + {at} * {width})")
        for every, each in whole.items():
            writer.alias(each, every, f"({self.to(every)} + {at} * {elements(each.shape)})")
        for state, after in zip(inner_states, last, strict=True):
            writer.alias(state, after, self.to(after))
        writer.add_nodes(body)
        made, *following = body.outputs
        tail = [self.copy(f"{self.to(output)} + {at} * {out_width}", made, made)]
        writer.add(tail, [x, made, *following], [output])
        # A next state that is an earlier one must be read before that is written.
        old = {writer.root(state) for state in last}
        for place, value in enumerate(following):
            if len(following) > 1 and writer.root(value) in old:
                following[place] = Value("kept", value.shape, value.kind)
                writer.add([self.copy(self.to(following[place]), value, value)], [value], [following[place]])
        lines = [
            self.copy(self.to(after), value, value)
            for after, value in zip(last, following, strict=True)
            if writer.root(value) is not writer.root(after)
        ]
        writer.add(lines, [x, *following], [output, *last])
        for one in writer.steps[first:]:
            one.reads += whole.keys()
            one.lines = [f"    {line}" if line else "" for line in one.lines]
        writer.add(["}"], [x, *whole], [output, *last])

    def _hoist(self, body: Graph, x: Value) -> tuple[Graph, dict[Value, Value]]:
        """Products of the input of a step alone are made for all steps before the loop: the body without them, and the
        values of all steps with those of one step."""
        found, kept = {}, []
        for node in body.nodes:
            if node.op != "linear" or node.inputs[0] is not body.inputs[0] or node.outputs[0] in body.outputs:
                kept.append(node)
                continue
            (one,) = node.outputs
            every = Value(f"{one.name} of all", (x.shape[0], *one.shape), one.kind)
            self.writer.arrays |= body.constants
            self.linear(Node("linear", (x, *node.inputs[1:]), (every,)))
            found[every] = one
        return Graph(body.name, body.inputs, body.outputs, tuple(kept), body.constants), found


def fresh(graph: Graph) -> Graph:
    """A copy of a graph with values of its own, as the body of several loops may be the same graph."""
    new: dict[Value, Value] = {}

    def copied(values: tuple[Value, ...]) -> tuple[Value, ...]:
        return tuple(new.setdefault(value, Value(value.name, value.shape, value.kind)) for value in values)

    nodes = tuple(
        Node(node.op, copied(node.inputs), copied(node.outputs), node.attributes, node.body) for node in graph.nodes
    )
    constants = {copied((value,))[0]: array for value, array in graph.constants.items()}
    return Graph(graph.name, copied(graph.inputs), copied(graph.outputs), nodes, constants)


STATEMENTS: Final[dict[str, Callable[[Text, Node], Any]]] = {
    name: getattr(Text, name)
    for name in (
        "linear",
        "embed",
        "concat",
        "slice",
        "reshape",
        "permute",
        "reduce",
        "softmax",
        "cumulate",
        "layer_norm",
        "group_norm",
        "conv2d",
        "positions",
        "length",
        "first",
        "last",
        "reverse",
        "gather",
        "windows",
        "rotate",
        "attend",
        "append",
        "recur",
    )
}
"""The method that writes each operation."""
