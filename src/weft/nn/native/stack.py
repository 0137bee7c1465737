"""stack.c and texts.c from Python: a whole stack of transformer blocks in one call, for one position or for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from weft.nn.attention.kv_cache import KVCache
from weft.nn.attention.masks import length_mask
from weft.nn.native import decode, pages
from weft.nn.transformer.block import DecoderBlock, EncoderBlock
from weft.nn.transformer.norm import LayerNorm, PostNorm, PreNorm, ReZero

KINDS: Final = {PostNorm: 0, PreNorm: 1, ReZero: 2}


class Reader(NamedTuple):
    """A decoder that reads tokens in C: its stack, vectors of tokens (V, D), at which scale, and of places (T, D)."""

    stack: decode.Made
    table: Tensor
    places: Tensor | None
    scale: float


class Layout(NamedTuple):
    """What the C must know of a stack: sizes, where it normalises, and how far from zero a variance is kept."""

    width: int
    heads: int
    units: int
    kind: int
    gelu: bool
    epsilon: float


_layouts: WeakKeyDictionary[nn.Module, Layout | None] = WeakKeyDictionary()


def layout_of(stack: Any) -> Layout | None:
    """None where the C cannot run the stack."""
    if stack not in _layouts:
        _layouts[stack] = _look(stack)
    return _layouts[stack]


def _look(stack: Any) -> Layout | None:
    if decode.library() is None:
        return None
    block = stack.blocks[0]
    attentions = [block.attention, *([block.cross] if isinstance(block, DecoderBlock) else [])]
    width, feed = block.attention.output.out_features, block.feedforward
    plain = all(
        part.score == "scaled_dot"
        and part.rotary is None
        and part.heads * part.head_size == part.heads * part.value_head_size == width
        and part.output.in_features == part.output.out_features
        for part in attentions
    )
    whole = all(size % decode.panel() == 0 for size in (width, feed.outer.in_features))
    norm = block.around_attention
    if not plain or not whole or feed.gated or width % block.attention.heads:
        return None
    epsilon = 0.0 if isinstance(norm, ReZero) else norm.norm.eps
    kind = KINDS[type(norm)]
    return Layout(width, block.attention.heads, feed.outer.in_features, kind, feed.activation == "gelu", epsilon)


def serves(stack: Any, x: Tensor) -> bool:
    """Whether the C can run the stack."""
    return decode.serves(x, stack.blocks[0].feedforward.inner.weight) and layout_of(stack) is not None


def steps(stack: Any, x: Tensor) -> bool:
    """Whether it makes the next step: in a steady time, in which many follow."""
    return decode.packed_weights() is not None and serves(stack, x)


def step(stack: Any, x: Tensor, seen: KVCache, *, each: int, source: tuple[Tensor, Tensor] | None) -> Tensor:
    """x (N, D) -> (N, D); keys and values are written to `seen`. `source` are keys and values of all layers
    (A, L, 2, H, S, m), and where they are real (A, 1, S)."""
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    decode.call("stack_step", prepare(stack, seen, each=each, source=source), x.contiguous(), out, x.size(0))
    return out


def prepare(stack: Any, seen: KVCache, *, each: int, source: tuple[Tensor, Tensor] | None) -> decode.Made:
    """The stack for many steps, in a steady time, with what its rows have seen: N rows, `each` of a sentence."""
    stores = [pointer for pair in zip(seen.keys, seen.values, strict=True) for pointer in pair]
    looked_at, mask = (part.contiguous() for part in source) if source is not None else (None, None)
    room, length = seen.keys[0].size(2), 0 if looked_at is None else looked_at.size(4)
    return _make(
        stack, decode.table(stores), looked_at, mask, seen.origin, seen.length, each=each, room=room, length=length
    )


def prefill(
    stack: Any,
    x: Tensor,
    lengths: Tensor,
    seen: KVCache,
    *,
    slots: Tensor,
    each: int,
    source: tuple[Tensor, Tensor] | None,
) -> None:
    """x (n, T, D), of which lengths (n,) are real, read causally: keys and values are written to the first of the
    `each` rows of those slots (n,) of `seen`. In a steady time."""
    real = length_mask(lengths, x.size(1))
    rows, places = (slots * each)[:, None].expand_as(real)[real], torch.arange(x.size(1)).expand_as(real)[real]
    stream, queries = x[real], torch.empty(rows.numel(), x.size(2))
    made = prepare(stack, seen, each=each, source=source)
    decode.call("stack_read", made, stream, queries, rows, places, rows.numel())


def recall(maps: Sequence[nn.Linear], memory: Tensor, *, heads: int) -> Tensor:
    """memory (A, S, M) -> keys and values of all layers (A, L, 2, H, S, m), by the map of each, in a steady time."""
    steady = decode.packed_weights()
    assert steady is not None
    packed, (slots, positions, depth) = [steady.packed(linear) for linear in maps], memory.shape
    tensors = [part for one in packed for part in (one.weight, one.bias)]
    size = maps[0].out_features // (2 * heads)
    out = pages.empty(slots, len(maps) * 2 * heads * positions * size, memory)
    sizes = (len(maps), slots, positions, depth, heads, size)
    decode.call("source_all", decode.table(tensors), memory.contiguous(), out, *sizes)
    return out.view(slots, len(maps), 2, heads, positions, size)


def run(stack: Any, x: Tensor, mask: Tensor | None) -> Tensor:
    """x (B, T, D) -> (B, T, D): all positions see each other, where they are real (B, 1, T)."""
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    with decode.steadily():
        mask = mask if mask is None else mask.contiguous()
        made = _make(stack, None, None, mask, None, None, each=x.size(1), room=0, length=0)
        decode.call("stack_all", made, x.contiguous(), out, x.size(0))
    return out


def _make(
    stack: Any, stores: decode.Made | None, *tensors: Tensor | None, each: int, room: int, length: int
) -> decode.Made:
    """The stack with pointers to its stores, and source, mask, origin and length, of which all may be missing."""
    layout, table = _prepare(stack)
    return decode.make(
        "stack", table, stores, *_final(stack), *tensors, len(stack.blocks), each, layout.width, layout.heads,
        layout.units, room, length, layout.kind, int(layout.gelu), layout.epsilon,
    )  # fmt: skip


def _prepare(stack: Any) -> tuple[Layout, decode.Made]:
    """What the C knows of the stack, in a steady time."""
    layout, steady = layout_of(stack), decode.packed_weights()
    assert layout is not None
    assert steady is not None
    if stack not in steady.tables:
        steady.tables[stack] = _table(stack, steady)
    return layout, steady.tables[stack]


def _final(stack: Any) -> tuple[Tensor | None, Tensor | None]:
    """The norm that ends the stack, if one does."""
    return (stack.final.weight, stack.final.bias) if isinstance(stack.final, LayerNorm) else (None, None)


def _table(stack: Any, steady: decode.PackedWeights) -> decode.Made:
    """The layers as stack.c lays them out: weights, biases and norms of each."""
    tensors: list[Tensor | None] = []
    for block in stack.blocks:
        cross = isinstance(block, DecoderBlock)
        maps = [block.attention.joint, block.attention.output]
        maps += [block.cross.query, block.cross.output] if cross else [None, None]
        maps += [block.feedforward.inner, block.feedforward.outer]
        packed = [None if linear is None else steady.packed(linear) for linear in maps]
        tensors += [None if part is None else part.weight for part in packed]
        tensors += [None if part is None else part.bias for part in packed]
        tensors += _norms(block)
    return decode.table(tensors)


def _norms(block: EncoderBlock | DecoderBlock) -> list[Tensor | None]:
    around = [block.around_attention, getattr(block, "around_cross", None), block.around_feedforward]
    found: list[Tensor | None] = []
    for part in around:
        if part is None:
            found += [None, None]
        elif isinstance(part, ReZero):
            found += [part.alpha.detach(), None]
        else:
            found += [part.norm.weight.detach(), part.norm.bias.detach()]
    return found
