"""The first and last layers of a network as graphs: embeddings, positions, hidden layers and the scores of tokens."""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from torch import Tensor, nn

from weft.export.graph.build import Builder
from weft.export.graph.graph import Value
from weft.export.graph.refusal import Lowerings, lowering_of
from weft.models.embedding import OneHot, Output, Vectors
from weft.models.heads import HEAD_ACTIVATIONS, HiddenLayers, Projection
from weft.models.placed import Placed
from weft.nn.positions import (
    JointPositions,
    LearnedPositions,
    NoPositions,
    OneHotPositions,
    SinusoidConcatPositions,
    SinusoidPositions,
)


def dense(build: Builder, linear: nn.Linear, x: Value) -> Value:
    """x (…, I) -> (…, O)."""
    return build.linear(x, linear.weight, linear.bias)


def norm(build: Builder, layer: nn.Module, x: Value) -> Value:
    """A layer norm, or nothing where there is none."""
    if isinstance(layer, nn.Identity):
        return x
    assert isinstance(layer, nn.LayerNorm)
    return build.layer_norm(x, layer.weight, layer.bias, layer.eps)


def _vectors(build: Builder, embedding: Vectors, tokens: Value) -> Value:
    return build.scaled(build.embed(tokens, embedding.weight), embedding.scale)


def _one_hot(build: Builder, embedding: OneHot, tokens: Value) -> Value:
    return indicator(build, tokens, embedding.embedding_dim)


def indicator(build: Builder, numbers: Value, size: int) -> Value:
    """numbers (…) -> (…, size), 1 at the number and 0 elsewhere."""
    wide = build.reshape(numbers, (*numbers.shape, 1))
    return build.cast(build.binary("eq", wide, build.constant(torch.arange(size))), "float")


EMBEDDINGS: Final[Lowerings] = {Vectors: _vectors, OneHot: _one_hot, Projection: dense}


def embed(build: Builder, embedding: nn.Module, tokens: Value) -> Value:
    """tokens (…), or the features of a step (…, F) -> vectors (…, E)."""
    return lowering_of(EMBEDDINGS, embedding, "an embedding")(build, embedding, tokens)  # type: ignore[no-any-return]


def _none(build: Builder, positions: NoPositions, x: Value, places: Value) -> Value:
    return x


def _one_hot_place(build: Builder, positions: OneHotPositions, x: Value, places: Value) -> Value:
    return build.concat([x, indicator(build, places, positions.longest)])


def _learned(build: Builder, positions: LearnedPositions, x: Value, places: Value) -> Value:
    return build.add(x, build.embed(places, positions.table.weight))


def _joint(build: Builder, positions: JointPositions, x: Value, places: Value) -> Value:
    both = build.add(dense(build, positions.w2, x), build.embed(places, positions.w3.weight))
    return dense(build, positions.w1, build.unary("tanh", both))


def _sinusoid(build: Builder, positions: SinusoidPositions, x: Value, places: Value) -> Value:
    return build.add(x, waves(build, places, positions.output_size))


def _sinusoid_concat(build: Builder, positions: SinusoidConcatPositions, x: Value, places: Value) -> Value:
    return build.concat([x, waves(build, places, positions.size)])


def waves(build: Builder, places: Value, size: int) -> Value:
    """places (T) -> (T, size): sines and cosines side by side."""
    steps = torch.arange(0, size, 2, dtype=torch.float32)
    frequencies = torch.exp(steps * (-math.log(10_000.0) / size))
    column = build.cast(build.reshape(places, (*places.shape, 1)), "float")
    angles = build.mul(column, build.constant(frequencies))
    wide = (*angles.shape, 1)
    pair = [build.reshape(build.unary(wave, angles), wide) for wave in ("sin", "cos")]
    joined = build.reshape(build.concat(pair), (*places.shape, 2 * len(steps)))
    return build.slice(joined, 0, size)


POSITIONS: Final[Lowerings] = {
    NoPositions: _none,
    OneHotPositions: _one_hot_place,
    LearnedPositions: _learned,
    JointPositions: _joint,
    SinusoidPositions: _sinusoid,
    SinusoidConcatPositions: _sinusoid_concat,
}


def place(build: Builder, placed: Placed, x: Value, places: Value) -> Value:
    """x (T, E) at places (T) -> (T, D), the input of the blocks of a transformer."""
    kind = placed.positions
    assert isinstance(kind, nn.Module)
    x = lowering_of(POSITIONS, kind, "positions")(build, kind, x, places)
    x = x if placed.widen is None else dense(build, placed.widen, x)
    return x if placed.norm is None else norm(build, placed.norm, x)


ACTIVATIONS: Final[dict[Any, str]] = {
    torch.relu: "relu",
    torch.tanh: "tanh",
    nn.functional.relu: "relu",
    nn.functional.gelu: "gelu",
}
"""Names of operations by torch's functions."""

assert set(HEAD_ACTIVATIONS.values()) <= ACTIVATIONS.keys()


def hidden_layers(build: Builder, head: HiddenLayers, x: Value) -> Value:
    """x (…, D) -> (…, H)."""
    for layer in head.layers:
        assert isinstance(layer, nn.Linear)
        x = build.unary(ACTIVATIONS[head.activation], dense(build, layer, x))
    return x


def output(build: Builder, scores: Output, hidden: Value) -> Value:
    """hidden (…, D) -> the logits of tokens (…, V)."""
    narrow = hidden if scores.narrow is None else dense(build, scores.narrow, hidden)
    return dense(build, scores.scores, narrow)


def frequencies_of(size: int, base: float) -> Tensor:
    """The angles by which rotary positions turn each pair of features from place to place."""
    steps = torch.arange(0, size, 2, dtype=torch.float32)
    return torch.as_tensor(base ** (-steps / size))
