"""A cell without an operator of its own: a Scan over time. What reads the input alone is computed before it.

    x_t -> nodes that read no state, hoisted: one product for all steps
    state, hoisted parts of step t -> output of step t, next state

Past a row's end the state stays as it is. Of the steps backwards those behind the last come first, and change nothing.
"""

from __future__ import annotations

from collections.abc import Collection

from onnx import helper

from weft.export.graph.graph import BINARY, COMPARE, UNARY, Graph, Node, Value
from weft.export.onnx.scope import ELEMENTS, Tensor
from weft.export.onnx.writer import BATCH, GraphWriter, make_graph


def write_scan(writer: GraphWriter, node: Node) -> list[Tensor]:
    """x (B, T, I), states (B, …) -> outputs (B, T, D), last states (B, …)."""
    assert node.body is not None
    x, *states = writer.inputs(node)
    before = node.body.inputs[1:]
    inner = GraphWriter(writer.weights, writer.ragged, quantized=writer.quantized, outer=writer)
    hoisted, crossing = hoist(node.body)
    written = write_hoisted(writer, node.body, hoisted, x)
    scanned = {value: written[value] for value in crossing}
    infos, names = [], []
    for value, given in zip(before, states, strict=True):
        name = inner.fresh("state")
        infos.append(helper.make_tensor_value_info(name, ELEMENTS[value.kind], [BATCH, *value.shape]))
        inner.set(value, Tensor(name, value.shape, value.kind, batched=True))
        names.append(writer.batch(given))
    for value, tensor in scanned.items():
        name = inner.fresh("x")
        infos.append(helper.make_tensor_value_info(name, ELEMENTS[value.kind], [BATCH, *value.shape]))
        inner.set(value, Tensor(name, value.shape, value.kind, batched=True))
        names.append(tensor.name)
    mask = writer.mask(x.shape[0])
    real = inner.fresh("real")
    if mask is not None:
        infos.append(helper.make_tensor_value_info(real, ELEMENTS["bool"], [BATCH]))
        names.append(mask)
    rest = tuple(one for one in node.body.nodes if one not in hoisted)
    inner.write(Graph(node.body.name, node.body.inputs, node.body.outputs, rest, node.body.constants))
    output, *after = node.body.outputs
    made = []
    for value, state in zip(after, before, strict=True):
        now = inner.batch(inner.get(value))
        if mask is not None:
            kept = inner.axes(real, *range(1, len(value.shape) + 1)) if value.shape else real
            now = inner.add("Where", kept, now, inner.get(state).name)
        made.append(_named(inner, now))
    made.append(_named(inner, inner.batch(inner.get(output))))
    outputs = [
        helper.make_tensor_value_info(name, ELEMENTS[value.kind], [BATCH, *value.shape])
        for name, value in zip(made, [*after, output], strict=True)
    ]
    body = make_graph(inner, inner.fresh("step"), infos, outputs)
    count, direction = len(names) - len(before), int(node.attributes["reverse"])
    found = writer.add_many(
        "Scan",
        *names,
        outputs=len(made),
        body=body,
        num_scan_inputs=count,
        scan_input_axes=[1] * count,
        scan_input_directions=[direction] * count,
        scan_output_axes=[1],
        scan_output_directions=[direction],
    )
    return [
        writer.result(name, value, batched=True)
        for name, value in zip([found[-1], *found[:-1]], node.outputs, strict=True)
    ]


def _named(inner: GraphWriter, name: str) -> str:
    """An output of a body has a name of its own, made in it."""
    return inner.add("Identity", name)


def hoist(body: Graph) -> tuple[list[Node], list[Value]]:
    """The nodes that read the input and no state, and those of their values, or the input, that the others read."""
    made, hoisted = {body.inputs[0]: None}, list[Node]()
    for node in body.nodes:
        if _can_move(node, made, body):
            hoisted.append(node)
            made |= dict.fromkeys(node.outputs)
    read = {value for node in body.nodes if node not in hoisted for value in node.inputs} | set(body.outputs)
    return hoisted, [value for value in made if value in read]


def _can_move(node: Node, made: Collection[Value], body: Graph) -> bool:
    """Whether a node means the same for all steps at once."""
    moved = [value for value in node.inputs if value in made]
    same = all(value in made or value in body.constants for value in node.inputs)
    if not moved or not same or len({len(value.shape) for value in moved}) > 1:
        return False
    if node.op in BINARY or node.op in COMPARE or node.op == "where":
        return len(node.outputs[0].shape) == len(moved[0].shape)
    if node.op in ("linear", "layer_norm"):
        return node.inputs[0] in made
    return len(moved) == len(node.inputs) and (node.op in UNARY or node.op in ("cast", "concat", "slice", "permute"))


def write_hoisted(writer: GraphWriter, body: Graph, nodes: list[Node], x: Tensor) -> dict[Value, Tensor]:
    """Write nodes of one step for all steps: each value has the axis of time before its own."""
    time = x.shape[0]
    lifted: dict[Value, Value] = {}

    def lift(value: Value) -> Value:
        if value in body.constants:
            return value
        if value not in lifted:
            lifted[value] = Value(value.name, (time, *value.shape), value.kind)
        return lifted[value]

    source = lift(body.inputs[0])
    writer.set(source, x._replace(name=writer.batch(x), batched=True))
    used = {value for node in nodes for value in node.inputs}
    outer = writer.graph
    moved = tuple(
        Node(node.op, tuple(map(lift, node.inputs)), tuple(map(lift, node.outputs)), _shifted(node)) for node in nodes
    )
    constants = {value: array for value, array in body.constants.items() if value in used}
    writer.write(Graph(body.name, (source,), (), moved, constants))
    writer.graph = outer
    return {value: writer.get(new) for value, new in lifted.items()}


def _shifted(node: Node) -> dict[str, object]:
    """The attributes of a node whose values have one more axis in front."""
    found = dict(node.attributes)
    if "axis" in found:
        found["axis"] += 1
    if "axes" in found:
        found["axes"] = (0, *(axis + 1 for axis in found["axes"]))
    return found
