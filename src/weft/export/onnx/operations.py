"""The writer of each operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from weft.export.graph.graph import Node
from weft.export.onnx.along import (
    write_cumulate,
    write_first,
    write_last,
    write_length,
    write_positions,
    write_reduce,
    write_reverse,
    write_softmax,
    write_windows,
)
from weft.export.onnx.attention import write_attend
from weft.export.onnx.elementwise import NAMES, write_cast, write_elementwise, write_gelu, write_silu
from weft.export.onnx.layers import (
    write_conv2d,
    write_embed,
    write_group_norm,
    write_layer_norm,
    write_linear,
    write_rotate,
)
from weft.export.onnx.recurrence import write_recur
from weft.export.onnx.scope import Tensor
from weft.export.onnx.shapes import (
    write_append,
    write_concat,
    write_gather,
    write_permute,
    write_reshape,
    write_slice,
)
from weft.export.onnx.writer import GraphWriter

WRITERS: Final[Mapping[str, Callable[[GraphWriter, Node], list[Tensor]]]] = {
    **dict.fromkeys(NAMES, write_elementwise),
    "gelu": write_gelu,
    "gelu_tanh": write_gelu,
    "silu": write_silu,
    "cast": write_cast,
    "linear": write_linear,
    "embed": write_embed,
    "layer_norm": write_layer_norm,
    "group_norm": write_group_norm,
    "conv2d": write_conv2d,
    "rotate": write_rotate,
    "concat": write_concat,
    "slice": write_slice,
    "reshape": write_reshape,
    "permute": write_permute,
    "gather": write_gather,
    "append": write_append,
    "reduce": write_reduce,
    "softmax": write_softmax,
    "cumulate": write_cumulate,
    "positions": write_positions,
    "length": write_length,
    "first": write_first,
    "last": write_last,
    "reverse": write_reverse,
    "windows": write_windows,
    "attend": write_attend,
    "recur": write_recur,
}
