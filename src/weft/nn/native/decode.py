"""decode.c from Python: each function takes tensors on the CPU, in float32, and says what the C does with them."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from weft.nn.native.compiler import compile_if_possible, read_source
from weft.nn.native.threads import parallel

FEWEST: Final = 4
"""Rows from which on a product with packed weights is quicker than torch's, and worth the packing."""


def text() -> str:
    """All that is compiled, in one piece."""
    names = ("arithmetic.c", "decode.c", "attend.c", "stack.c", "texts.c", "beam.c", "beam_steps.c")
    return "".join(read_source("weft.nn.native", name) for name in names)


@cache
def library() -> ctypes.CDLL | None:
    """The compiled text, or None where there is no compiler."""
    return compile_if_possible(text())


def serves(*tensors: Tensor) -> bool:
    """Whether the C computes with these: on the CPU, in float32, outside of training, and compiled."""
    if torch.is_grad_enabled() or torch.compiler.is_compiling():
        return False
    return all(x.device.type == "cpu" and x.dtype == torch.float32 for x in tensors) and library() is not None


class Packed(NamedTuple):
    """Weights in the order in which the product reads them, bias padded alike, and the checksum of both."""

    weight: Tensor
    bias: Tensor | None
    checksum: tuple[int, ...]


class Made(NamedTuple):
    """Something of C's that was put together once, and what it points to, so that it stays."""

    bytes: Any
    parts: Sequence[Any]


_packed: WeakKeyDictionary[nn.Linear, Packed] = WeakKeyDictionary()
_here = threading.local()


class PackedWeights:
    """A time in which no weights change: `with` it, products use packed weights.

    Packed weights are kept from one such time to the next. An optimizer may change weights without torch counting it,
    so each is looked at once in each.
    """

    def __init__(self) -> None:
        self.known: dict[nn.Linear, Packed] = {}
        self.tables: dict[nn.Module, Made] = {}
        self.before: list[PackedWeights | None] = []

    def __enter__(self) -> PackedWeights:
        self.before.append(packed_weights())
        _here.packed = self
        return self

    def __exit__(self, *_: object) -> None:
        _here.packed = self.before.pop()

    def packed(self, linear: nn.Linear) -> Packed:
        if linear not in self.known:
            self.known[linear] = _pack(linear)
        return self.known[linear]


def packed_weights() -> PackedWeights | None:
    """The steady time that it is here and now."""
    found: PackedWeights | None = getattr(_here, "packed", None)
    return found


def steadily() -> AbstractContextManager[Any]:
    """The steady time that it is, or one of its own for as long as it lasts."""
    return PackedWeights() if packed_weights() is None else nullcontext()


def table(tensors: Sequence[Tensor | None]) -> Made:
    """Their addresses in a row."""
    return Made((ctypes.c_void_p * len(tensors))(*map(_argument, tensors)), tensors)


def multiplies(x: Tensor, linear: nn.Linear) -> bool:
    """Whether `multiply` is the way: in a steady time, for rows enough to be worth it."""
    if packed_weights() is None or x.numel() < FEWEST * x.size(-1):
        return False
    return serves(x, linear.weight)


def multiply(x: Tensor, linear: nn.Linear, *, relu: bool = False) -> Tensor:
    """x (…, K) -> (…, M), in a steady time."""
    rows = x.reshape(-1, x.size(-1))
    rows = rows if rows.stride(1) == 1 else rows.contiguous()
    packed, width = _here.packed.packed(linear), linear.out_features
    y = x.new_empty(rows.size(0), _padded(width))
    call(
        "linear", rows, rows.size(0), rows.stride(0), rows.size(1), width, packed.weight, packed.bias, int(relu), y,
        y.stride(0),
    )  # fmt: skip
    return y[:, :width].view(*x.shape[:-1], width)


def attend_cached(
    q: Tensor, k: Tensor, v: Tensor, keys: Tensor, values: Tensor, origin: Tensor | None, length: Tensor, scale: float
) -> Tensor:
    """q, k (N, H, m), v (N, H, v) and a store (see weft.nn.attention.kv_cache) -> (N, H, v)."""
    out = torch.empty(v.shape)
    rows, heads, size = q.shape
    call(
        "attend_cached", q, k, v, q.stride(0), k.stride(0), v.stride(0), keys, values, origin, length, out, rows, heads,
        size, v.size(2), keys.size(2), scale,
    )  # fmt: skip
    return out


def attend_shared(q: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """q (A, K, H, m), keys (A, H, S, m), values (A, H, S, v), mask (A, S) -> (A, K, H, v): K rows read one source."""
    slots, each, heads, size = q.shape
    out = torch.empty(slots, each, heads, values.size(3))
    rows = q.flatten(0, 1)  # of which the stride can be trusted even where a dimension is 1
    masks = 0 if mask is None else mask.stride(0)
    call(
        "attend_shared", rows, rows.stride(0), keys, *keys.stride()[:3], values, *values.stride()[:3], mask, masks, out,
        slots, each, heads, size, values.size(3), keys.size(2), scale,
    )  # fmt: skip
    return out


def call(name: str, *arguments: Any) -> None:
    """Call the C function with addresses, whole numbers and reals, and then the threads."""
    _function(name)(*map(_argument, arguments), *_threads())


def ask(name: str, *arguments: Any) -> int:
    """The same, of one that gives a whole number."""
    return _number(name, *arguments, *_threads())


def make(kind: str, *arguments: Any) -> Made:
    """What C calls a kind, put together of these."""
    made = ctypes.create_string_buffer(_number(f"{kind}_bytes"))
    _function(f"{kind}_make")(made, *map(_argument, arguments))
    return Made(made, arguments)


def _threads() -> tuple[Any, ...]:
    return ctypes.c_long(torch.get_num_threads()), parallel()


def _argument(given: Any) -> Any:
    if given is None or isinstance(given, Tensor):
        return ctypes.c_void_p(None if given is None else given.data_ptr())
    if isinstance(given, int | float):
        return ctypes.c_float(given) if isinstance(given, float) else ctypes.c_long(given)
    return given.bytes if isinstance(given, Made) else given


def _pack(linear: nn.Linear) -> Packed:
    weight, bias = linear.weight.detach(), linear.bias
    weight = weight if weight.is_contiguous() else weight.contiguous()
    checksum = tuple(ask("checksum", x, x.numel()) for x in (weight, bias) if x is not None)
    kept = _packed.get(linear)
    if kept is not None and kept.checksum == checksum:
        return kept
    width, depth = weight.shape
    with torch.inference_mode(False):
        packed = torch.empty(_padded(width) * depth)
        padded = None if bias is None else nn.functional.pad(bias.detach(), (0, _padded(width) - width))
    _function("pack_linear")(*map(_argument, (weight, weight.stride(0), depth, width, packed)))
    _packed[linear] = Packed(packed, padded, checksum)
    return _packed[linear]


def _function(name: str) -> Any:
    found = library()
    assert found is not None
    return getattr(found, name)


def _number(name: str, *arguments: Any) -> int:
    function = _function(name)
    function.restype = ctypes.c_long
    return int(function(*map(_argument, arguments)))


@cache
def panel() -> int:
    """Columns of a panel: packed weights are padded to whole ones."""
    return _number("panel_size")


@cache
def part_size() -> int:
    """Tokens of a part, in which beam.c scores a vocabulary."""
    return _number("part_size")


def parts(vocabulary: int) -> int:
    """In how many parts."""
    return -(-vocabulary // part_size())


def _padded(width: int) -> int:
    return -(-width // panel()) * panel()
