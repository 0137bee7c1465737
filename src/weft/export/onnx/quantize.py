"""Weights in 8 bits: each output of a linear map has its own scale, and products are computed in integers.

    W ≈ S ⊙ Q, Q in -127 … 127, S (O)           x ≈ s (q - z), q in 0 … 255, for each call           y = s S (q - z) Qᵀ

Tables of embeddings have a scale for each row. The range of x is that of a whole batch, padding included.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from weft.export.onnx.scope import Tensor

if TYPE_CHECKING:
    from weft.export.onnx.native import Operator
    from weft.export.onnx.writer import GraphWriter

MOST = 127


def quantize(array: NDArray[Any], axis: int) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """The array in 8 bits and its scales, which have size 1 along an axis."""
    scale = np.abs(array).max(axis=axis, keepdims=True) / MOST
    scale = np.where(scale > 0, scale, 1.0)
    return np.round(array / scale).astype(np.int8), scale.astype(np.float32)


def quantized_linear(writer: GraphWriter, x: Tensor, weight: Tensor, bias: Sequence[str]) -> str:
    """x (…, I), weight (O, I)[, bias (O)] -> (…, O)."""
    array = writer.weights.arrays[weight.name]
    small = writer.use(writer.weights.made(array, "int8", lambda: quantize(array, 1)[0].T))
    scale = writer.use(writer.weights.made(array, "scale", lambda: quantize(array, 1)[1][:, 0]))
    zero = writer.constant(np.array(0, dtype=np.int8))
    parts = writer.once(
        ("8 bits", x.name), lambda: ",".join(writer.add_many("DynamicQuantizeLinear", x.name, outputs=3))
    )
    whole, step, point = parts.split(",")
    product = writer.add("Cast", writer.add("MatMulInteger", whole, small, point, zero), to=TensorProto.FLOAT)
    found = writer.add("Mul", product, writer.add("Mul", step, scale))
    return writer.add("Add", found, *bias) if bias else found


def quantized_embed(writer: GraphWriter, ids: Tensor, table: Tensor) -> str:
    """ids (…), table (V, E) -> (…, E)."""
    array = writer.weights.arrays[table.name]
    small = writer.use(writer.weights.made(array, "int8 rows", lambda: quantize(array, 1)[0]))
    scale = writer.use(writer.weights.made(array, "scale of rows", lambda: quantize(array, 1)[1]))
    rows = writer.add("Cast", writer.add("Gather", small, ids.name, axis=0), to=TensorProto.FLOAT)
    return writer.add("Mul", rows, writer.add("Gather", scale, ids.name, axis=0))


def dynamic_lstm(
    writer: GraphWriter,
    cells: tuple[Any, ...],
    operators: Sequence[Operator],
    inputs: Sequence[str],
    attributes: dict[str, Any],
) -> list[str]:
    """onnxruntime's LSTM of weights in 8 bits: W (D, I, 4H), R (D, H, 4H), a scale for each of the 4H outputs."""
    x, lengths, *states = inputs
    key = "+".join(str(id(cell)) for cell in cells)

    def made(part: str, role: str) -> str:
        arrays = [quantize(getattr(operator, part), 1) for operator in operators]
        if role == "int8":
            return writer.use(
                writer.weights.made(cells[0], f"{part} int8 {key}", lambda: np.stack([a.T for a, _ in arrays]))
            )
        return writer.use(
            writer.weights.made(cells[0], f"{part} scale {key}", lambda: np.stack([s[:, 0] for _, s in arrays]))
        )

    size = 4 * operators[0].hidden
    zeros = writer.constant(np.zeros((len(operators), size), dtype=np.int8))
    bias = writer.use(
        writer.weights.made(cells[0], f"b {key}", lambda: np.stack([operator.b for operator in operators]))
    )
    peepholes = ""
    if operators[0].p is not None:
        peepholes = writer.use(
            writer.weights.made(
                cells[0], f"p {key}", lambda: np.stack([one.p for one in operators if one.p is not None])
            )
        )
    return writer.add_many(
        "DynamicQuantizeLSTM",
        x,
        made("w", "int8"),
        made("r", "int8"),
        bias,
        lengths,
        *states,
        peepholes,
        made("w", "scale"),
        zeros,
        made("r", "scale"),
        zeros,
        outputs=3,
        domain="com.microsoft",
        **attributes,
    )
