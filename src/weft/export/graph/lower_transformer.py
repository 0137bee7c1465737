"""Transformer blocks as graphs: attention, feed-forward and norms, with or without a cache of keys and values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from weft.export.graph.build import Builder
from weft.export.graph.graph import Value
from weft.export.graph.lower_input import dense, frequencies_of, norm
from weft.nn import DecoderStack, EncoderStack
from weft.nn.attention import MultiHeadAttention
from weft.nn.transformer.block import DecoderBlock, EncoderBlock
from weft.nn.transformer.feedforward import FeedForward
from weft.nn.transformer.norm import PostNorm, PreNorm, ReZero

Part = Callable[[Value], Value]


class KeysValues(NamedTuple):
    """Keys (T, H, m) and values (T, H, v) of attention."""

    keys: Value
    values: Value


class Run(NamedTuple):
    """Hidden (T, D), the caches of all layers, and the attention of the last layer to the source (H, T, S)."""

    hidden: Value
    caches: list[KeysValues]
    attention: Value | None


def encode(build: Builder, stack: EncoderStack, x: Value) -> Value:
    """x (T, D) -> (T, D); every position sees all."""
    for block in stack.blocks:
        x = _around(build, block.around_attention, x, partial(_own, build, block.attention))
        x = _around(build, block.around_feedforward, x, partial(_feed, build, block.feedforward))
    return norm(build, stack.final, x)


def decode(
    build: Builder,
    stack: EncoderStack | DecoderStack,
    x: Value,
    places: Value,
    caches: list[KeysValues | None],
    source: list[KeysValues],
) -> Run:
    """x (T, D) at places (T) -> each position sees those before it, in the caches and in x; `source` is of a
    `DecoderStack`, the keys and values of each layer."""
    after: list[KeysValues] = []
    weights: Value | None = None

    def attend(block: EncoderBlock | DecoderBlock, cache: KeysValues | None) -> Part:
        def part(x: Value) -> Value:
            out, now = _causal(build, block.attention, x, places, cache)
            after.append(now)
            return out

        return part

    def look(block: DecoderBlock, memory: KeysValues) -> Part:
        def part(x: Value) -> Value:
            nonlocal weights
            assert block.cross.query is not None
            query = _heads(build, dense(build, block.cross.query, x), block.cross)
            context, weights = _attend(build, block.cross, query, memory, causal=False)
            return context

        return part

    blocks: Sequence[EncoderBlock | DecoderBlock] = stack.blocks
    for number, (block, cache) in enumerate(zip(blocks, caches, strict=True)):
        x = _around(build, block.around_attention, x, attend(block, cache))
        if isinstance(block, DecoderBlock):
            x = _around(build, block.around_cross, x, look(block, source[number]))
        x = _around(build, block.around_feedforward, x, partial(_feed, build, block.feedforward))
    return Run(norm(build, stack.final, x), after, weights)


def recall(build: Builder, stack: DecoderStack, memory: Value) -> list[KeysValues]:
    """memory (S, M) -> the keys and values of each layer."""
    return [_recall(build, block.cross, memory) for block in stack.blocks]


def _recall(build: Builder, attention: MultiHeadAttention, memory: Value) -> KeysValues:
    assert attention.memory is not None
    keys, values = attention.splits[1:]
    both = dense(build, attention.memory, memory)
    parts = build.slice(both, 0, keys), build.slice(both, keys, keys + values)
    return KeysValues(*(_heads(build, part, attention) for part in parts))


def _heads(build: Builder, x: Value, attention: MultiHeadAttention) -> Value:
    """x (T, H·m) -> (T, H, m)."""
    width = x.shape[-1]
    assert isinstance(width, int)
    return build.reshape(x, (*x.shape[:-1], attention.heads, width // attention.heads))


def _projected(build: Builder, attention: MultiHeadAttention, x: Value, places: Value | None) -> list[Value]:
    """x (T, D) -> its queries, keys and values."""
    assert attention.joint is not None
    joint, parts, start = dense(build, attention.joint, x), list[Value](), 0
    for size in attention.splits:
        parts.append(_heads(build, build.slice(joint, start, start + size), attention))
        start += size
    if attention.rotary is not None:
        places = build.positions(x) if places is None else places
        turns = build.constant(frequencies_of(attention.rotary.size, attention.rotary.base))
        parts[:2] = [build.rotate(part, places, turns) for part in parts[:2]]
    return parts


def _own(build: Builder, attention: MultiHeadAttention, x: Value) -> Value:
    query, keys, values = _projected(build, attention, x, None)
    return _attend(build, attention, query, KeysValues(keys, values), causal=False)[0]


def _causal(
    build: Builder, attention: MultiHeadAttention, x: Value, places: Value, cache: KeysValues | None
) -> tuple[Value, KeysValues]:
    query, *new = _projected(build, attention, x, places)
    if cache is not None:
        new = [build.append(old, part, "now") for old, part in zip(cache, new, strict=True)]
    now = KeysValues(*new)
    return _attend(build, attention, query, now, causal=True)[0], now


def _attend(
    build: Builder, attention: MultiHeadAttention, query: Value, memory: KeysValues, *, causal: bool
) -> tuple[Value, Value]:
    assert attention.score == "scaled_dot", "the blocks of weft's transformers score so"
    options = {"scale": attention.factor, "causal": causal, "hard": attention.hard}
    context, weights = build.attend(query, *memory, **options)  # type: ignore[arg-type]
    time, heads, size = context.shape
    assert isinstance(heads, int)
    assert isinstance(size, int)
    return dense(build, attention.output, build.reshape(context, (time, heads * size))), weights


def _feed(build: Builder, part: FeedForward, x: Value) -> Value:
    inner = dense(build, part.inner, x)
    if part.gated:
        size = part.outer.in_features
        gate, value = build.slice(inner, 0, size), build.slice(inner, size, 2 * size)
        inner = build.mul(build.unary("silu", gate), value)
    else:
        inner = build.unary(part.activation, inner)
    return dense(build, part.outer, inner)


def _around(build: Builder, join: PostNorm | PreNorm | ReZero, x: Value, part: Part) -> Value:
    """A part of a block with its connection to the stream."""
    if isinstance(join, PostNorm):
        return norm(build, join.norm, build.add(x, part(x)))
    if isinstance(join, PreNorm):
        return build.add(x, part(norm(build, join.norm, x)))
    return build.add(x, build.mul(build.constant(join.alpha), part(x)))
