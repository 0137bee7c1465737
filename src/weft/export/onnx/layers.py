"""Layers with weights: linear maps, embeddings, norms, convolutions, and rotary positions."""

from __future__ import annotations

import numpy as np

from weft.export.graph.graph import Node
from weft.export.onnx.quantize import quantized_embed, quantized_linear
from weft.export.onnx.scope import Tensor
from weft.export.onnx.writer import GraphWriter


def write_linear(writer: GraphWriter, node: Node) -> list[Tensor]:
    """x (B, I) as one Gemm; more axes as a product with the transposed weight, to which onnxruntime changes it once."""
    (x, weight, *bias), (output,) = writer.inputs(node), node.outputs
    names = [one.name for one in bias]
    if writer.quantized and weight.name in writer.weights.arrays:
        return [writer.result(quantized_linear(writer, x, weight, names), output, batched=x.batched)]
    if len(x.shape) + x.batched == 2:
        return [writer.result(writer.add("Gemm", x.name, weight.name, *names, transB=1), output, batched=x.batched)]
    turned = writer.once(("turned", weight.name), lambda: writer.add("Transpose", weight.name, perm=[1, 0]))
    name = writer.add("MatMul", x.name, turned)
    return [writer.result(writer.add("Add", name, *names) if names else name, output, batched=x.batched)]


def write_embed(writer: GraphWriter, node: Node) -> list[Tensor]:
    (ids, table), (output,) = writer.inputs(node), node.outputs
    if writer.quantized and table.name in writer.weights.arrays:
        return [writer.result(quantized_embed(writer, ids, table), output, batched=ids.batched)]
    return [writer.result(writer.add("Gather", table.name, ids.name, axis=0), output, batched=ids.batched)]


def write_layer_norm(writer: GraphWriter, node: Node) -> list[Tensor]:
    x, weight, bias = writer.inputs(node)
    name = writer.add("LayerNormalization", x.name, weight.name, bias.name, axis=-1, epsilon=node.attributes["epsilon"])
    return [x._replace(name=name)]


def write_group_norm(writer: GraphWriter, node: Node) -> list[Tensor]:
    """The channels of a group as one channel, normalised; then each channel has its own weight."""
    x, weight, bias = writer.inputs(node)
    groups, name = node.attributes["groups"], writer.batch(x)
    ones, zeros = (writer.constant(np.full(groups, value, dtype=np.float32)) for value in (1, 0))
    joined = writer.add("Reshape", name, writer.numbers([0, groups, -1]))
    normal = writer.add("InstanceNormalization", joined, ones, zeros, epsilon=node.attributes["epsilon"])
    normal = writer.add("Reshape", normal, writer.add("Shape", name))
    scaled = writer.add("Mul", normal, writer.axes(weight.name, 1, 2))
    return [x._replace(name=writer.add("Add", scaled, writer.axes(bias.name, 1, 2)), batched=True)]


def write_conv2d(writer: GraphWriter, node: Node) -> list[Tensor]:
    (x, weight, *bias), (output,) = writer.inputs(node), node.outputs
    stride, padding = node.attributes["stride"], node.attributes["padding"]
    names = [writer.batch(x), weight.name, *(one.name for one in bias)]
    name = writer.add("Conv", *names, strides=[stride] * 2, pads=[padding] * 4)
    return [writer.result(name, output, batched=True)]


def write_rotate(writer: GraphWriter, node: Node) -> list[Tensor]:
    """(a, b) -> (a cos - b sin, a sin + b cos) for the two halves of each head."""
    x, places, frequencies = writer.inputs(node)
    half = x.shape[2] // 2 if isinstance(x.shape[2], int) else 0
    angle = writer.once(("angle", places.name, frequencies.name), lambda: _angles(writer, places, frequencies))
    cosine, sine = (writer.once((op, angle), lambda op=op: writer.add(op, angle)) for op in ("Cos", "Sin"))  # type: ignore[misc]
    a, b = writer.add_many("Split", x.name, writer.numbers([half, half]), outputs=2, axis=-1)
    first = writer.add("Sub", writer.add("Mul", a, cosine), writer.add("Mul", b, sine))
    second = writer.add("Add", writer.add("Mul", a, sine), writer.add("Mul", b, cosine))
    batched = x.batched or places.batched
    return [x._replace(name=writer.add("Concat", first, second, axis=-1), batched=batched)]


def _angles(writer: GraphWriter, places: Tensor, frequencies: Tensor) -> str:
    """places (T) -> angles (T, 1, m/2)."""
    numbers = writer.add("Cast", places.name, to=1)
    return writer.add("Mul", writer.add("Unsqueeze", numbers, writer.numbers([-1, -2])), frequencies.name)
