"""Operations that move numbers: concat, slice, reshape, permute, gather, append."""

from __future__ import annotations

from weft.export.graph.graph import Node, Size
from weft.export.onnx.scope import Tensor
from weft.export.onnx.writer import GraphWriter


def write_concat(writer: GraphWriter, node: Node) -> list[Tensor]:
    tensors, (output,), axis = writer.inputs(node), node.outputs, node.attributes["axis"]
    batched = any(tensor.batched for tensor in tensors)
    if batched and any(tensor.shape[axis] in writer.lengths for tensor in tensors):
        return [_join_ragged(writer, tensors, node, axis)]
    names = [writer.batch(tensor) if batched else tensor.name for tensor in tensors]
    if tuple(names) in writer.pairs and axis == len(output.shape) - 1:
        return [writer.result(writer.pairs[tuple(names)], output, batched=True)]
    return [writer.result(writer.add("Concat", *names, axis=axis + batched), output, batched=batched)]


def _join_ragged(writer: GraphWriter, tensors: list[Tensor], node: Node, axis: int) -> Tensor:
    """Rows one behind the other: position p of the result is found at p in the first part, or behind its padding.

    [a1 a2 .  .  | b1 b2 b3]  ->  a1 a2 b1 b2 b3
    """
    output = node.outputs[0]
    joined = output.shape[axis]
    assert isinstance(joined, str)
    padded = writer.add("Concat", *map(writer.batch, tensors), axis=axis + 1)
    # Where each part begins in the padded rows (1), and in the joined ones (B).
    begins, starts = writer.numbers([0]), writer.numbers([0])
    places = writer.add("Range", writer.whole(0), _scalar(writer, _size_of(writer, padded, axis + 1)), writer.whole(1))
    found = places = writer.axes(places, 0)
    for before in tensors[:-1]:
        begins = writer.add("Add", begins, writer.size(before.shape[axis]))
        starts = writer.add("Add", starts, _count(writer, before.shape[axis]))
        shifted = writer.add("Add", places, writer.add("Sub", writer.axes(begins, 1), writer.axes(starts, 1)))
        inside = writer.add("GreaterOrEqual", places, writer.axes(starts, 1))
        found = writer.add("Where", inside, shifted, found)
    total = writer.add("Add", starts, _count(writer, tensors[-1].shape[axis]))
    writer.lengths[joined] = total
    last = writer.add("Sub", _size_of(writer, padded, axis + 1), writer.numbers([1]))
    found = writer.add("Min", found, last)
    longest = writer.add("ReduceMax", total, keepdims=1)
    found = writer.add("Slice", found, writer.numbers([0]), longest, writer.numbers([1]))
    return writer.result(take(writer, padded, found, len(output.shape), axis), output, batched=True)


def _count(writer: GraphWriter, size: Size) -> str:
    """The length of each row (B), or that of all (1)."""
    return writer.count(size) if isinstance(size, str) else writer.size(size)


def _size_of(writer: GraphWriter, name: str, axis: int) -> str:
    return writer.add("Shape", name, start=axis, end=axis + 1)


def _scalar(writer: GraphWriter, name: str) -> str:
    return writer.add("Squeeze", name, writer.numbers([0]))


def take(writer: GraphWriter, name: str, places: str, rank: int, axis: int = 0) -> str:
    """Rows of x (B, …, T, …) at places (B, U), which for each row are its own -> (B, …, U, …)."""
    if axis:
        order = [0, axis + 1, *(place for place in range(1, rank + 1) if place != axis + 1)]
        back = [order.index(place) for place in range(rank + 1)]
        moved = take(writer, writer.add("Transpose", name, perm=order), places, rank)
        return writer.add("Transpose", moved, perm=back)
    return writer.add("GatherND", name, writer.add("Unsqueeze", places, writer.numbers([-1])), batch_dims=1)


def write_slice(writer: GraphWriter, node: Node) -> list[Tensor]:
    (x,), (output,) = writer.inputs(node), node.outputs
    axis, start, stop = (node.attributes[name] for name in ("axis", "start", "stop"))
    bounds = (writer.numbers([number]) for number in (start, stop, axis + x.batched))
    return [writer.result(writer.add("Slice", x.name, *bounds), output, batched=x.batched)]


def write_reshape(writer: GraphWriter, node: Node) -> list[Tensor]:
    (x,), (output,) = writer.inputs(node), node.outputs
    if x.shape == output.shape:
        return [x]
    sizes: list[int] = [0] if x.batched else []
    for place, size in enumerate(output.shape):
        if isinstance(size, int):
            sizes.append(size)
        else:
            sizes.append(0 if place < len(x.shape) and x.shape[place] == size else -1)
    several = sizes.count(-1) > 1
    shape = writer.shape(output.shape, batched=x.batched) if several else writer.numbers(sizes)
    return [writer.result(writer.add("Reshape", x.name, shape), output, batched=x.batched)]


def write_permute(writer: GraphWriter, node: Node) -> list[Tensor]:
    (x,), (output,) = writer.inputs(node), node.outputs
    order = [0, *(axis + 1 for axis in node.attributes["axes"])] if x.batched else list(node.attributes["axes"])
    return [writer.result(writer.add("Transpose", x.name, perm=order), output, batched=x.batched)]


def write_gather(writer: GraphWriter, node: Node) -> list[Tensor]:
    (x, places), (output,) = writer.inputs(node), node.outputs
    if not places.batched:
        name = writer.add("Gather", x.name, places.name, axis=int(x.batched))
        return [writer.result(name, output, batched=x.batched)]
    if not x.batched:
        return [writer.result(writer.add("Gather", x.name, places.name, axis=0), output, batched=True)]
    if places.shape:
        return [writer.result(take(writer, x.name, places.name, len(x.shape)), output, batched=True)]
    name = writer.add("GatherND", x.name, writer.axes(places.name, 1), batch_dims=1)
    return [writer.result(name, output, batched=True)]


def write_append(writer: GraphWriter, node: Node) -> list[Tensor]:
    (cache, x), (output,) = writer.inputs(node), node.outputs
    batched = cache.batched or x.batched
    names = [writer.batch(one) if batched else one.name for one in (cache, x)]
    return [writer.result(writer.add("Concat", *names, axis=int(batched)), output, batched=batched)]
