"""Whole transformer stacks on the CPU in one call, in float32: one position, all positions, or prefill (stack.c).

A slots of K rows (N in all), T positions, S of the source, L layers, H heads of m numbers, D width.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, ClassVar, Final, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from weft.nn.attention.kv_cache import KVCache
from weft.nn.attention.masks import length_mask
from weft.nn.attention.recording import recording
from weft.nn.attention.single_query_cpu import SINGLE_QUERY
from weft.nn.native import pages
from weft.nn.native.library import ARITHMETIC, CFile, Library
from weft.nn.native.packed_linear import (
    PACKED_LINEAR,
    PackedLinear,
    PackedWeights,
    hold_packed_weights,
    packed_weights,
    panel,
)
from weft.nn.native.struct import (
    ConstBytes,
    ConstFloats,
    ConstLongs,
    Floats,
    FloatsTable,
    Longs,
    NativeStruct,
    address_table,
    struct_array,
)
from weft.nn.transformer.block import DecoderBlock, EncoderBlock
from weft.nn.transformer.norm import LayerNorm, PostNorm, PreNorm, ReZero

KINDS: Final = {PostNorm: 0, PreNorm: 1, ReZero: 2}
"""Where blocks normalise, as stack.c numbers it."""

ACTIVATIONS: Final = {"relu": 0, "gelu": 1, "gelu_tanh": 2, "silu": 3}
"""The functions of feed-forward nets, as stack.c numbers them."""


class NativeNorm(NativeStruct):
    """A layer norm, or ReZero's α as the weight; both None where there is no norm."""

    c_name: ClassVar[str] = "norm_t"
    _fields_ = (("weight", ConstFloats), ("bias", ConstFloats))


class NativeLayer(NativeStruct):
    """One block; `query`, `cross` and `cross_norm` are empty without a source."""

    c_name: ClassVar[str] = "layer_t"
    _fields_ = (
        ("joint", PackedLinear), ("output", PackedLinear), ("query", PackedLinear), ("cross", PackedLinear),
        ("inner", PackedLinear), ("outer", PackedLinear), ("attention_norm", NativeNorm), ("cross_norm", NativeNorm),
        ("feedforward_norm", NativeNorm),
    )  # fmt: skip


class NativeTransformer(NativeStruct):
    """A stack with the KV cache and the source of its rows, prepared once for many calls.

    cache: keys and values of each layer, or None where the rows of a slot are the positions of one text;
    source (A, L, 2, H, S, m) and mask (A, S), of the source or of those positions, or None; `slot_width` rows a slot.
    """

    c_name: ClassVar[str] = "transformer_t"
    _fields_ = (
        ("layers", ctypes.POINTER(NativeLayer)), ("final", NativeNorm), ("cache", FloatsTable),
        ("source", ConstFloats), ("mask", ConstBytes), ("origin", Longs), ("length", Longs),
        ("count", ctypes.c_long), ("slot_width", ctypes.c_long), ("width", ctypes.c_long), ("heads", ctypes.c_long),
        ("units", ctypes.c_long), ("capacity", ctypes.c_long), ("source_length", ctypes.c_long),
        ("epsilon", ctypes.c_float), ("kind", ctypes.c_int), ("activation", ctypes.c_int),
    )  # fmt: skip


class TokenInput(NativeStruct):
    """The input of each row: scale · table[token] + positions[length of the row], the latter if there are positions."""

    c_name: ClassVar[str] = "token_input_t"
    _fields_ = (
        ("table", ConstFloats), ("positions", ConstFloats), ("tokens", ConstLongs), ("scale", ctypes.c_float),
    )  # fmt: skip


class NativeSource(NativeStruct):
    """Maps of each layer from memory (A, S, M) to keys and values (A, L, 2, H, S, m)."""

    c_name: ClassVar[str] = "source_t"
    _fields_ = (
        ("maps", ctypes.POINTER(PackedLinear)), ("memory", ConstFloats), ("out", Floats), ("layers", ctypes.c_long),
        ("slots", ctypes.c_long), ("positions", ctypes.c_long), ("heads", ctypes.c_long), ("size", ctypes.c_long),
    )  # fmt: skip


class NativePrefill(NativeStruct):
    """Positions of texts: x (rows, D), which is overwritten, and a buffer q (rows, D).

    Position r is place[r] of the text in row row[r] of the cache; positions of a text stand side by side.
    """

    c_name: ClassVar[str] = "prefill_t"
    _fields_ = (
        ("stack", ctypes.POINTER(NativeTransformer)), ("x", Floats), ("q", Floats), ("row", ConstLongs),
        ("place", ConstLongs), ("rows", ctypes.c_long),
    )  # fmt: skip


SOURCES: Final = (
    ARITHMETIC,
    PACKED_LINEAR,
    SINGLE_QUERY,
    CFile("weft.nn.transformer", "stack.c", (NativeNorm, NativeLayer, NativeTransformer, TokenInput, NativeSource)),
    CFile("weft.nn.transformer", "prefill.c", (NativePrefill,)),
)
"""The files of a library that runs stacks; others may follow."""

LIBRARY: Final = Library(*SOURCES)


class TokenStack(NamedTuple):
    """A decoder that embeds its tokens in C: its stack, vectors of tokens (V, D) and of positions (T, D), the scale."""

    stack: NativeTransformer
    table: Tensor
    positions: Tensor | None
    scale: float


class StackLayout(NamedTuple):
    """Sizes of a stack, where it normalises, its activation, and the epsilon of its norms."""

    width: int
    heads: int
    units: int
    kind: int
    activation: int
    epsilon: float


_layouts: WeakKeyDictionary[nn.Module, StackLayout | None] = WeakKeyDictionary()


def layout_of(stack: Any) -> StackLayout | None:
    """The layout of a stack, or None where the C cannot run it."""
    if stack not in _layouts:
        _layouts[stack] = _find_layout(stack)
    return _layouts[stack]


def _find_layout(stack: Any) -> StackLayout | None:
    if LIBRARY.load() is None:
        return None
    block = stack.blocks[0]
    attentions = [block.attention, *([block.cross] if isinstance(block, DecoderBlock) else [])]
    width, feed = block.attention.output.out_features, block.feedforward
    plain = all(
        part.fused
        and part.scale is None
        and part.rotary is None
        and part.heads * part.head_size == part.heads * part.value_head_size == width
        and part.output.in_features == part.output.out_features
        for part in attentions
    )
    whole = all(size % panel() == 0 for size in (width, feed.outer.in_features))
    norm = block.around_attention
    if not plain or not whole or feed.gated or width % block.attention.heads:
        return None
    epsilon = 0.0 if isinstance(norm, ReZero) else norm.norm.eps
    kind = KINDS[type(norm)]
    activation = ACTIVATIONS[feed.activation]
    return StackLayout(width, block.attention.heads, feed.outer.in_features, kind, activation, epsilon)


def serves(stack: Any, x: Tensor) -> bool:
    """Whether the C can run the stack; it computes no attention weights, so not while attention is recorded."""
    return (
        not recording() and LIBRARY.serves(x, stack.blocks[0].feedforward.inner.weight) and layout_of(stack) is not None
    )


def steps(stack: Any, x: Tensor) -> bool:
    """Whether the C makes the next step: packed weights are held, so many steps follow."""
    return packed_weights() is not None and serves(stack, x)


def step(stack: Any, x: Tensor, cache: KVCache, *, slot_width: int, source: tuple[Tensor, Tensor] | None) -> Tensor:
    """x (N, D) -> (N, D); keys and values are written to the cache. `source`: keys and values of all layers
    (A, L, 2, H, S, m), and the mask of real positions (A, 1, S)."""
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    LIBRARY.call(
        "stack_step", prepare(stack, cache, slot_width=slot_width, source=source), x.contiguous(), out, x.size(0)
    )
    return out


def prepare(stack: Any, cache: KVCache, *, slot_width: int, source: tuple[Tensor, Tensor] | None) -> NativeTransformer:
    """The stack for many steps of N rows with a cache, `slot_width` of a sentence, while packed weights are held."""
    tensors = [tensor for pair in zip(cache.keys, cache.values, strict=True) for tensor in pair]
    keys_values, mask = (part.contiguous() for part in source) if source is not None else (None, None)
    return _prepare(
        stack,
        cache=address_table(tensors),
        source=keys_values,
        mask=mask,
        origin=cache.origin,
        length=cache.length,
        slot_width=slot_width,
        capacity=cache.keys[0].size(2),
        source_length=0 if keys_values is None else keys_values.size(4),
    )


def prefill(
    stack: Any,
    x: Tensor,
    lengths: Tensor,
    cache: KVCache,
    *,
    slots: Tensor,
    slot_width: int,
    source: tuple[Tensor, Tensor] | None,
) -> None:
    """Read x (n, T, D), of which lengths (n,) are real, causally: keys and values are written to the first of the
    `slot_width` rows of the slots (n,) of the cache, while packed weights are held."""
    real = length_mask(lengths, x.size(1))
    rows, places = (slots * slot_width)[:, None].expand_as(real)[real], torch.arange(x.size(1)).expand_as(real)[real]
    queries, count = torch.empty(rows.numel(), x.size(2)), rows.numel()
    native = prepare(stack, cache, slot_width=slot_width, source=source)
    texts = NativePrefill(stack=ctypes.pointer(native), x=x[real], q=queries, row=rows, place=places, rows=count)
    LIBRARY.call("stack_prefill", texts)


def recall(maps: Sequence[nn.Linear], memory: Tensor, *, heads: int) -> Tensor:
    """memory (A, S, M) -> keys and values of all layers (A, L, 2, H, S, m), by the map of each layer, while packed
    weights are held."""
    held = packed_weights()
    assert held is not None
    slots, positions, _ = memory.shape
    size = maps[0].out_features // (2 * heads)
    out = pages.empty(slots, len(maps) * 2 * heads * positions * size, memory)
    source = NativeSource(
        maps=struct_array([held.packed(linear).struct for linear in maps]), memory=memory.contiguous(), out=out,
        layers=len(maps), slots=slots, positions=positions, heads=heads, size=size,
    )  # fmt: skip
    LIBRARY.call("source_all", source)
    return out.view(slots, len(maps), 2, heads, positions, size)


def run(stack: Any, x: Tensor, mask: Tensor | None) -> Tensor:
    """x (B, T, D) -> (B, T, D): every position attends to all real ones (mask (B, 1, T))."""
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    with hold_packed_weights():
        native = _prepare(
            stack, cache=None, source=None, mask=mask if mask is None else mask.contiguous(), origin=None, length=None,
            slot_width=x.size(1), capacity=0, source_length=0,
        )  # fmt: skip
        LIBRARY.call("stack_all", native, x.contiguous(), out, x.size(0))
    return out


def _prepare(stack: Any, **fields: Any) -> NativeTransformer:
    """The stack with the fields that depend on its rows, while packed weights are held."""
    layout, held = layout_of(stack), packed_weights()
    assert layout is not None
    assert held is not None
    if stack not in held.structs:
        layers = struct_array([_layer(block, held) for block in stack.blocks])
        held.structs[stack] = layers, _norm(stack.final if isinstance(stack.final, LayerNorm) else None)
    layers, final = held.structs[stack]
    return NativeTransformer(
        layers=layers, final=final,
        count=len(stack.blocks), width=layout.width, heads=layout.heads, units=layout.units, epsilon=layout.epsilon,
        kind=layout.kind, activation=layout.activation, **fields,
    )  # fmt: skip


def _layer(block: EncoderBlock | DecoderBlock, held: PackedWeights) -> NativeLayer:
    cross = block.cross if isinstance(block, DecoderBlock) else None
    nothing = PackedLinear(weight=None, bias=None, depth=0, width=0)
    assert block.attention.joint is not None
    return NativeLayer(
        joint=held.packed(block.attention.joint).struct,
        output=held.packed(block.attention.output).struct,
        query=nothing if cross is None or cross.query is None else held.packed(cross.query).struct,
        cross=nothing if cross is None else held.packed(cross.output).struct,
        inner=held.packed(block.feedforward.inner).struct,
        outer=held.packed(block.feedforward.outer).struct,
        attention_norm=_norm_around(block.around_attention),
        cross_norm=_norm_around(getattr(block, "around_cross", None)),
        feedforward_norm=_norm_around(block.around_feedforward),
    )


def _norm_around(part: Any) -> NativeNorm:
    """The norm of a residual connection, or ReZero's α."""
    if isinstance(part, ReZero):
        return NativeNorm(weight=part.alpha.detach(), bias=None)
    return _norm(None if part is None else part.norm)


def _norm(norm: LayerNorm | None) -> NativeNorm:
    return NativeNorm(weight=None if norm is None else norm.weight, bias=None if norm is None else norm.bias)
