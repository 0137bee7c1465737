"""Encoders as graphs: tokens or vectors -> the states of a memory, and the last states by layer."""

from __future__ import annotations

from typing import Final, NamedTuple

from torch import nn

from weft.export.graph import lower_recurrent, lower_transformer
from weft.export.graph.build import Builder
from weft.export.graph.graph import Value
from weft.export.graph.lower_input import dense, embed, norm, place
from weft.export.graph.refusal import Lowerings, lowering_of
from weft.models.captioner import ConvolutionalPictureEncoder, LinearFeaturesEncoder
from weft.models.recurrent import RecurrentEncoder
from weft.models.transformer import TransformerEncoder
from weft.nn.vision import ResidualBlock
from weft.text import EOS


class Encoded(NamedTuple):
    """states (S, D), in the order of the tokens; `final`, the tensors of the last states by layer."""

    states: Value
    final: list[list[Value]]


def _recurrent(build: Builder, encoder: RecurrentEncoder, vectors: Value) -> Encoded:
    first = lower_recurrent.first_states(build, encoder.rnn)
    x = build.reverse(vectors, keep=1) if encoder.reverse else vectors
    states, final = lower_recurrent.run(build, encoder.rnn, x, first)
    return Encoded(build.reverse(states, keep=1) if encoder.reverse else states, final)


def _transformer(build: Builder, encoder: TransformerEncoder, vectors: Value) -> Encoded:
    x = place(build, encoder.placed, vectors, build.positions(vectors))
    states = lower_transformer.encode(build, encoder.stack, x)
    return Encoded(states, [[build.reduce("mean", states, 0)]])


VECTOR_ENCODERS: Final[Lowerings] = {RecurrentEncoder: _recurrent, TransformerEncoder: _transformer}


def encode_vectors(build: Builder, encoder: nn.Module, vectors: Value) -> Encoded:
    """vectors (T, E), embedded already. All of it is one segment."""
    lower = lowering_of(VECTOR_ENCODERS, encoder, "an encoder")
    segments = getattr(encoder, "segments", None)
    if segments is not None:
        vectors = build.add(vectors, build.constant(segments.weight[0]))
    return lower(build, encoder, vectors)  # type: ignore[no-any-return]


def encode_tokens(build: Builder, encoder: nn.Module, tokens: Value) -> Encoded:
    """tokens (T), or features (T, F)."""
    lower = lowering_of(VECTOR_ENCODERS, encoder, "an encoder")
    vectors = embed(build, encoder.embedding, tokens)  # type: ignore[arg-type]
    if not isinstance(encoder, TransformerEncoder) or encoder.segments is None:
        return lower(build, encoder, vectors)  # type: ignore[no-any-return]
    if tokens.kind == "float":
        return encode_vectors(build, encoder, vectors)
    ends = build.cast(build.binary("eq", tokens, build.whole(EOS)), "int")
    ended = build.binary("sub", build.cumulate("sum", ends, 0), ends)
    kinds = build.binary("minimum", ended, build.whole(encoder.segments.num_embeddings - 1))
    return _transformer(build, encoder, build.add(vectors, build.embed(kinds, encoder.segments.weight)))


def last_state(build: Builder, encoder: nn.Module, tokens: Value) -> Value:
    """tokens (T) -> (D), the state with which a row ends."""
    if not isinstance(encoder, RecurrentEncoder):
        return build.last(encode_tokens(build, encoder, tokens).states)
    vectors = embed(build, encoder.embedding, tokens)
    x = build.reverse(vectors, keep=1) if encoder.reverse else vectors
    return lower_recurrent.last(build, encoder.rnn, x)


def _pictures(build: Builder, encoder: ConvolutionalPictureEncoder, picture: Value) -> Encoded:
    """picture (H, W, C), bytes -> a state for each position, row by row."""
    x = build.permute(build.scaled(picture, 1 / 255), (2, 0, 1))
    x = build.binary("sub", x, build.constant(encoder.mean))
    x = build.binary("div", x, build.constant(encoder.scale))
    net = encoder.net
    x = build.unary("relu", _group_norm(build, net.norm, _convolve(build, net.first, x)))
    for block in net.blocks:
        assert isinstance(block, ResidualBlock)
        x = _residual(build, block, x)
    channels, height, width = x.shape
    assert isinstance(height, int)
    assert isinstance(width, int)
    states = build.permute(build.reshape(x, (channels, height * width)), (1, 0))
    return Encoded(states, [[build.reduce("mean", states, 0)]])


def _residual(build: Builder, block: ResidualBlock, x: Value) -> Value:
    y = build.unary("relu", _group_norm(build, block.first_norm, _convolve(build, block.first, x)))
    y = _group_norm(build, block.second_norm, _convolve(build, block.second, y))
    if isinstance(block.skip, nn.Sequential):
        convolution, normed = block.skip
        assert isinstance(convolution, nn.Conv2d)
        assert isinstance(normed, nn.GroupNorm)
        x = _group_norm(build, normed, _convolve(build, convolution, x))
    return build.unary("relu", build.add(x, y))


def _convolve(build: Builder, part: nn.Conv2d, x: Value) -> Value:
    (stride, _), padding = part.stride, part.padding
    assert isinstance(padding, tuple)
    return build.conv2d(x, part.weight, part.bias, stride=stride, padding=int(padding[0]))


def _group_norm(build: Builder, part: nn.GroupNorm, x: Value) -> Value:
    return build.group_norm(x, part.weight, part.bias, groups=part.num_groups, epsilon=part.eps)


def _features(build: Builder, encoder: LinearFeaturesEncoder, features: Value) -> Encoded:
    """features (S, F) -> Memory."""
    states = norm(build, encoder.norm, dense(build, encoder.map, features))
    return Encoded(states, [[build.reduce("mean", states, 0)]])


PICTURE_ENCODERS: Final[Lowerings] = {ConvolutionalPictureEncoder: _pictures, LinearFeaturesEncoder: _features}


def encode_picture(build: Builder, encoder: nn.Module, given: Value) -> Encoded:
    """picture (H, W, C), or features (S, F)."""
    return lowering_of(PICTURE_ENCODERS, encoder, "an encoder of pictures")(build, encoder, given)  # type: ignore[no-any-return]
