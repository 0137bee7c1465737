"""Operations on single numbers, written as ONNX nodes; inputs broadcast as they do for one row."""

from __future__ import annotations

from typing import Final

from weft.export.graph.graph import Node
from weft.export.onnx.scope import ELEMENTS, Tensor
from weft.export.onnx.writer import GraphWriter

NAMES: Final = {
    "neg": "Neg",
    "abs": "Abs",
    "exp": "Exp",
    "log": "Log",
    "sqrt": "Sqrt",
    "tanh": "Tanh",
    "sigmoid": "Sigmoid",
    "relu": "Relu",
    "erf": "Erf",
    "not": "Not",
    "sin": "Sin",
    "cos": "Cos",
    "add": "Add",
    "sub": "Sub",
    "mul": "Mul",
    "div": "Div",
    "pow": "Pow",
    "maximum": "Max",
    "minimum": "Min",
    "gt": "Greater",
    "ge": "GreaterOrEqual",
    "lt": "Less",
    "le": "LessOrEqual",
    "eq": "Equal",
    "and": "And",
    "or": "Or",
    "where": "Where",
}
"""Operations that ONNX has, by their names."""


def write_elementwise(writer: GraphWriter, node: Node) -> list[Tensor]:
    """An operation with one name here and there."""
    (output,), tensors = node.outputs, writer.inputs(node)
    names = [writer.aligned(tensor, len(output.shape)) for tensor in tensors]
    batched = any(tensor.batched for tensor in tensors)
    return [writer.result(writer.add(NAMES[node.op], *names), output, batched=batched)]


def write_gelu(writer: GraphWriter, node: Node) -> list[Tensor]:
    (x,) = writer.inputs(node)
    name = writer.add("Gelu", x.name, approximate="tanh" if node.op == "gelu_tanh" else "none")
    return [x._replace(name=name)]


def write_silu(writer: GraphWriter, node: Node) -> list[Tensor]:
    (x,) = writer.inputs(node)
    return [x._replace(name=writer.add("Mul", x.name, writer.add("Sigmoid", x.name)))]


def write_cast(writer: GraphWriter, node: Node) -> list[Tensor]:
    (x,), (output,) = writer.inputs(node), node.outputs
    return [writer.result(writer.add("Cast", x.name, to=ELEMENTS[output.kind]), output, batched=x.batched)]
