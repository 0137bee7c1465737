"""Attention of one query per row on the CPU, in float32: to the KV cache, or to a source (single_query.c).

N rows, A slots of K rows, H heads, T or S positions, m numbers of a key, v of a value.
"""

from __future__ import annotations

import ctypes
from typing import ClassVar, Final

import torch
from torch import Tensor

from weft.nn.native.library import ARITHMETIC, CFile, Library
from weft.nn.native.struct import ConstBytes, ConstFloats, ConstLongs, Floats, Longs, NativeStruct


class CachedAttention(NativeStruct):
    """Queries, keys and values of the next position, and a KV cache (see weft.nn.attention.kv_cache).

    Row r of q, k and v is row row[r] of the cache, or row r without such a list.
    """

    c_name: ClassVar[str] = "cached_attention_t"
    _fields_ = (
        ("q", ConstFloats), ("k", ConstFloats), ("v", ConstFloats), ("keys", Floats), ("values", Floats),
        ("out", Floats), ("row", ConstLongs), ("length", ConstLongs), ("origin", Longs), ("q_stride", ctypes.c_long),
        ("k_stride", ctypes.c_long), ("v_stride", ctypes.c_long), ("rows", ctypes.c_long), ("heads", ctypes.c_long),
        ("size", ctypes.c_long), ("width", ctypes.c_long), ("capacity", ctypes.c_long), ("scale", ctypes.c_float),
    )  # fmt: skip


class SharedAttention(NativeStruct):
    """Queries of `slots` times `slot_width` rows, and each slot's source with strides by slot, head and position."""

    c_name: ClassVar[str] = "shared_attention_t"
    _fields_ = (
        ("q", ConstFloats), ("keys", ConstFloats), ("values", ConstFloats), ("out", Floats), ("mask", ConstBytes),
        ("q_stride", ctypes.c_long), ("mask_stride", ctypes.c_long), ("key_slot", ctypes.c_long),
        ("key_head", ctypes.c_long), ("key_step", ctypes.c_long), ("value_slot", ctypes.c_long),
        ("value_head", ctypes.c_long), ("value_step", ctypes.c_long), ("slots", ctypes.c_long),
        ("slot_width", ctypes.c_long), ("heads", ctypes.c_long), ("size", ctypes.c_long), ("width", ctypes.c_long),
        ("length", ctypes.c_long), ("scale", ctypes.c_float),
    )  # fmt: skip


SINGLE_QUERY: Final = CFile("weft.nn.attention", "single_query.c", (CachedAttention, SharedAttention))
LIBRARY: Final = Library(ARITHMETIC, SINGLE_QUERY)


def attend_cached(
    q: Tensor, k: Tensor, v: Tensor, keys: Tensor, values: Tensor, origin: Tensor | None, length: Tensor, scale: float
) -> Tensor:
    """q, k (N, H, m), v (N, H, v), keys (N, H, T, m), values (N, H, T, v) -> (N, H, v); k and v are written into the
    cache."""
    out = torch.empty(v.shape)
    rows, heads, size = q.shape
    call = CachedAttention(
        q=q, k=k, v=v, keys=keys, values=values, out=out, row=None, length=length, origin=origin,
        q_stride=q.stride(0), k_stride=k.stride(0), v_stride=v.stride(0), rows=rows, heads=heads, size=size,
        width=v.size(2), capacity=keys.size(2), scale=scale,
    )  # fmt: skip
    LIBRARY.call("attend_cached", call)
    return out


def attend_shared(q: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """q (A, K, H, m), keys (A, H, S, m), values (A, H, S, v), mask (A, S) -> (A, K, H, v)."""
    slots, slot_width, heads, size = q.shape
    out = torch.empty(slots, slot_width, heads, values.size(3))
    rows = q.flatten(0, 1)  # its stride is right even where a dimension is 1
    key_slot, key_head, key_step, _ = keys.stride()
    value_slot, value_head, value_step, _ = values.stride()
    call = SharedAttention(
        q=rows, keys=keys, values=values, out=out, mask=mask, q_stride=rows.stride(0),
        mask_stride=0 if mask is None else mask.stride(0), key_slot=key_slot, key_head=key_head, key_step=key_step,
        value_slot=value_slot, value_head=value_head, value_step=value_step, slots=slots, slot_width=slot_width,
        heads=heads, size=size, width=values.size(3), length=keys.size(2), scale=scale,
    )  # fmt: skip
    LIBRARY.call("attend_shared", call)
    return out
