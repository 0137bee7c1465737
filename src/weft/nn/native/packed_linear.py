"""Linear maps with packed weights on the CPU, in float32 (packed_linear.c).

Packing puts weights into the order in which the product reads them. It pays where many products with the same weights
follow each other, as in decoding, so it happens only inside `with PackedWeights():`, while no weights change.
"""

from __future__ import annotations

import ctypes
import threading
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, ClassVar, Final, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from weft.nn.native.library import ARITHMETIC, Library, Source, c_argument
from weft.nn.native.struct import ConstFloats, NativeStruct

MIN_ROWS: Final = 4
"""Rows from which on a product with packed weights is faster than torch's, and worth the packing."""


class PackedLinear(NativeStruct):
    """Weights in panels of columns, and the bias (or none), both padded to whole panels: (depth, width)."""

    c_name: ClassVar[str] = "packed_linear_t"
    _fields_ = (("weight", ConstFloats), ("bias", ConstFloats), ("depth", ctypes.c_long), ("width", ctypes.c_long))


PACKED_LINEAR: Final = Source("weft.nn.native", "packed_linear.c", (PackedLinear,))
LIBRARY: Final = Library(ARITHMETIC, PACKED_LINEAR)


class Packed(NamedTuple):
    """Packed weights, the padded bias, the checksum of what was packed, and the structure with the first two."""

    weight: Tensor
    bias: Tensor | None
    checksum: tuple[int, ...]
    struct: PackedLinear


_packed: WeakKeyDictionary[nn.Linear, Packed] = WeakKeyDictionary()
_here = threading.local()


class PackedWeights:
    """Holds packed weights: inside `with PackedWeights():` products of this thread use them, and no weights may change.

    What was packed is kept after the block. An optimizer may change weights without torch counting it, so each block
    compares the checksum of every weight that it uses once.
    """

    def __init__(self) -> None:
        self.known: dict[nn.Linear, Packed] = {}
        self.structs: dict[nn.Module, Any] = {}
        """C structures of modules that point to packed weights, kept as long as these."""
        self.before: list[PackedWeights | None] = []

    def __enter__(self) -> PackedWeights:
        self.before.append(packed_weights())
        _here.packed = self
        return self

    def __exit__(self, *_: object) -> None:
        _here.packed = self.before.pop()

    def packed(self, linear: nn.Linear) -> Packed:
        """The packed weights of a linear map; they are packed now if they were not, or if they have changed."""
        if linear not in self.known:
            self.known[linear] = _pack(linear)
        return self.known[linear]


def packed_weights() -> PackedWeights | None:
    """The packed weights that this thread holds, or None outside of `with PackedWeights():`."""
    found: PackedWeights | None = getattr(_here, "packed", None)
    return found


def hold_packed_weights() -> AbstractContextManager[Any]:
    """A context in which packed weights are held: the outer one if there is one, else a new one."""
    return PackedWeights() if packed_weights() is None else nullcontext()


def multiplies(x: Tensor, linear: nn.Linear) -> bool:
    """Whether `multiply` is the faster way: packed weights are held, and there are enough rows."""
    if packed_weights() is None or x.numel() < MIN_ROWS * x.size(-1):
        return False
    return LIBRARY.serves(x, linear.weight)


def multiply(x: Tensor, linear: nn.Linear, *, relu: bool = False) -> Tensor:
    """x (…, K) -> (…, M), while packed weights are held."""
    rows = x.reshape(-1, x.size(-1))
    rows = rows if rows.stride(1) == 1 else rows.contiguous()
    packed, width = _here.packed.packed(linear), linear.out_features
    y = x.new_empty(rows.size(0), _padded(width))
    LIBRARY.call("linear", packed.struct, rows, rows.size(0), rows.stride(0), y, y.stride(0), int(relu))
    return y[:, :width].view(*x.shape[:-1], width)


def _pack(linear: nn.Linear) -> Packed:
    weight, bias = linear.weight.detach(), linear.bias
    weight = weight if weight.is_contiguous() else weight.contiguous()
    checksum = tuple(LIBRARY.shared_number("checksum", x, x.numel()) for x in (weight, bias) if x is not None)
    kept = _packed.get(linear)
    if kept is not None and kept.checksum == checksum:
        return kept
    width, depth = weight.shape
    with torch.inference_mode(False):
        packed = torch.empty(_padded(width) * depth)
        padded = None if bias is None else nn.functional.pad(bias.detach(), (0, _padded(width) - width))
    LIBRARY.function("pack_linear")(*map(c_argument, (weight, weight.stride(0), depth, width, packed)))
    struct = PackedLinear(weight=packed, bias=padded, depth=depth, width=width)
    _packed[linear] = Packed(packed, padded, checksum, struct)
    return _packed[linear]


@cache
def panel() -> int:
    """Columns of a panel: packed weights are padded to whole panels."""
    return LIBRARY.number("panel_size")


def _padded(width: int) -> int:
    return -(-width // panel()) * panel()
