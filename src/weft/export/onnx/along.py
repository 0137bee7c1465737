"""Operations along an axis, which take no notice of what is past the end of a row."""

from __future__ import annotations

from onnx import TensorProto, helper

from weft.export.graph.graph import Node
from weft.export.onnx.scope import ELEMENTS, LOWEST, Scope, Tensor
from weft.export.onnx.writer import GraphWriter

REDUCE = {"sum": "ReduceSum", "max": "ReduceMax", "mean": "ReduceMean"}
LOWEST_INT = -(1 << 62)
INT, BOOL = TensorProto.INT64, TensorProto.BOOL


def write_reduce(writer: GraphWriter, node: Node) -> list[Tensor]:
    (x,), (output,) = writer.inputs(node), node.outputs
    function, axis = node.attributes["function"], node.attributes["axis"]
    size, place = x.shape[axis], writer.numbers([axis + x.batched])
    if isinstance(size, int):
        return [writer.result(writer.add(REDUCE[function], x.name, place, keepdims=0), output, batched=x.batched)]
    if function == "max":
        return [writer.result(_max(writer, x, axis, place), output, batched=x.batched)]
    name = writer.add("ReduceSum", writer.cleared(x, axis), place, keepdims=0)
    if function == "mean":
        count = writer.add("Max", writer.count(size) if x.batched else writer.size(size), writer.numbers([1]))
        count = writer.add("Cast", count, to=TensorProto.FLOAT)
        if x.batched and len(output.shape):
            count = writer.axes(count, *range(1, len(output.shape) + 1))
        name = writer.add("Div", name, count)
    return [writer.result(name, output, batched=x.batched)]


def _max(writer: GraphWriter, x: Tensor, axis: int, place: str) -> str:
    """The maximum; one more position with the lowest number makes that of no positions defined."""
    low = LOWEST if x.kind == "float" else LOWEST_INT
    lowest = writer.number(low) if x.kind == "float" else writer.whole(LOWEST_INT)
    name = writer.cleared(x, axis, low)
    pads = [0] * (2 * (len(x.shape) + x.batched))
    pads[len(x.shape) + x.batched + axis + x.batched] = 1
    found = writer.add("ReduceMax", writer.add("Pad", name, writer.numbers(pads), lowest), place, keepdims=0)
    zero = writer.number(0.0) if x.kind == "float" else writer.whole(0)
    return writer.add("Where", writer.add("Equal", found, lowest), zero, found)


def write_softmax(writer: GraphWriter, node: Node) -> list[Tensor]:
    (x,), axis = writer.inputs(node), node.attributes["axis"]
    mask = writer.mask_at(x, axis)
    name = writer.add("Softmax", writer.cleared(x, axis, LOWEST), axis=axis + x.batched)
    if mask is not None:
        name = writer.add("Where", mask, name, writer.number(0.0))
    return [x._replace(name=name)]


def write_cumulate(writer: GraphWriter, node: Node) -> list[Tensor]:
    """The running sum, or the running maximum: at each turn of a loop over twice as many positions."""
    (x,), axis = writer.inputs(node), node.attributes["axis"]
    if node.attributes["function"] == "sum":
        return [x._replace(name=writer.add("CumSum", x.name, writer.whole(axis + x.batched)))]
    return [x._replace(name=_running_max(writer, x, axis + x.batched))]


def _running_max(writer: GraphWriter, x: Tensor, axis: int) -> str:
    """x_t = max(x_t, x_{t - k}) for k = 1, 2, 4, … below T."""
    size = writer.size(x.shape[axis - x.batched])
    inner = Scope(writer.weights, writer)
    turn, going, shift, now = (inner.fresh(name) for name in ("turn", "going", "shift", "now"))
    rank, kind = len(x.shape) + x.batched, ELEMENTS[x.kind]
    pads = [shift, writer.numbers([0] * (2 * rank - axis - 1))]
    pads = [writer.numbers([0] * axis), *pads] if axis else pads
    low = writer.number(LOWEST) if x.kind == "float" else writer.whole(LOWEST_INT)
    padded = inner.add("Pad", now, inner.add("Concat", *pads, axis=0), low)
    moved = inner.add("Slice", padded, writer.numbers([0]), size, writer.numbers([axis]))
    found, doubled = inner.add("Max", now, moved), inner.add("Add", shift, shift)
    more = inner.add("Squeeze", inner.add("Less", doubled, size), writer.numbers([0]))
    read = [(turn, INT, []), (going, BOOL, []), (shift, INT, [1]), (now, kind, None)]
    made = [(more, BOOL, []), (doubled, INT, [1]), (found, kind, None)]
    inputs, outputs = ([helper.make_tensor_value_info(*one) for one in each] for each in (read, made))
    body = helper.make_graph(inner.nodes, inner.fresh("running_max"), inputs, outputs)
    several = writer.add("Squeeze", writer.add("Less", writer.numbers([1]), size), writer.numbers([0]))
    return writer.add_many("Loop", "", several, writer.numbers([1]), x.name, outputs=2, body=body)[1]


def write_positions(writer: GraphWriter, node: Node) -> list[Tensor]:
    (x,), (output,) = writer.inputs(node), node.outputs
    return [writer.result(writer.places(x.shape[0]), output, batched=False)]


def write_length(writer: GraphWriter, node: Node) -> list[Tensor]:
    (x,), (output,) = writer.inputs(node), node.outputs
    axis = x.shape[0]
    if isinstance(axis, str) and axis in writer.lengths:
        return [writer.result(writer.lengths[axis], output, batched=True)]
    return [writer.result(writer.add("Squeeze", writer.size(axis), writer.numbers([0])), output, batched=False)]


def write_first(writer: GraphWriter, node: Node) -> list[Tensor]:
    return [_at(writer, node, first=True)]


def write_last(writer: GraphWriter, node: Node) -> list[Tensor]:
    return [_at(writer, node, first=False)]


def _at(writer: GraphWriter, node: Node, *, first: bool) -> Tensor:
    """One position of each row, zeros where it has none: a zero stands before the first or behind the last."""
    (x,), (output,) = writer.inputs(node), node.outputs
    size = x.shape[0]
    rank, axis = len(x.shape) + x.batched, int(x.batched)
    if isinstance(size, int):
        index = writer.whole(0 if first else size - 1)
        return writer.result(writer.add("Gather", x.name, index, axis=axis), output, batched=x.batched)
    ragged = x.batched and size in writer.lengths
    pads = [0] * (2 * rank)
    pads[rank + axis if first else axis] = 1
    zero = writer.number(0.0) if x.kind == "float" else writer.whole(0)
    padded = writer.add("Pad", writer.cleared(x, 0) if first else x.name, writer.numbers(pads), zero)
    if first:
        return writer.result(writer.add("Gather", padded, writer.whole(0), axis=axis), output, batched=x.batched)
    if ragged:
        places = writer.axes(writer.lengths[size], 1)
        return writer.result(writer.add("GatherND", padded, places, batch_dims=1), output, batched=True)
    end = writer.add("Squeeze", writer.size(size), writer.numbers([0]))
    return writer.result(writer.add("Gather", padded, end, axis=axis), output, batched=x.batched)


def write_reverse(writer: GraphWriter, node: Node) -> list[Tensor]:
    (x,), keep = writer.inputs(node), node.attributes["keep"]
    name, size = writer.batch(x), x.shape[0]
    count = writer.count(size) if isinstance(size, str) else writer.numbers([size])
    if not (isinstance(size, str) and size in writer.lengths):
        count = writer.add("Expand", count, writer.size("batch"))
    if keep:
        count = writer.add("Max", writer.add("Sub", count, writer.numbers([keep])), writer.numbers([0]))
    return [x._replace(name=writer.add("ReverseSequence", name, count, batch_axis=0, time_axis=1), batched=True)]


def write_windows(writer: GraphWriter, node: Node) -> list[Tensor]:
    (x,), (output,) = writer.inputs(node), node.outputs
    before, after, axis = node.attributes["before"], node.attributes["after"], int(x.batched)
    pads = [0] * (2 * (2 + axis))
    pads[axis], pads[2 + axis + axis] = before, after
    padded = writer.add("Pad", writer.cleared(x, 0), writer.numbers(pads), writer.number(0.0))
    size, parts = writer.size(x.shape[0]), []
    for start in range(before + 1 + after):
        begin = writer.numbers([start])
        parts.append(writer.add("Slice", padded, begin, writer.add("Add", begin, size), writer.numbers([axis])))
    name = writer.add("Concat", *parts, axis=axis + 1) if len(parts) > 1 else parts[0]
    return [writer.result(name, output, batched=x.batched)]
