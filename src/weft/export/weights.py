"""The weights of a transformer as plain tensors, which every export format is filled from.

The tensors may share memory with the model.

D width, V tokens, P places, F feed-forward units. A map or norm without a bias gets one of zeros.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, Self

import torch
from torch import Tensor, nn

from weft.documents import to_json
from weft.errors import ConfigError
from weft.models import (
    LanguageModel,
    PrefixTranslator,
    TransformerDecoder,
    TransformerEncoder,
    Translator,
    TranslatorConfig,
)
from weft.models.embedding import Vectors
from weft.models.pretrained import embedding_size
from weft.models.transformer_settings import TransformerConfig
from weft.nn import DecoderBlock, EncoderBlock, MultiHeadAttention
from weft.nn.positions import LearnedPositions, sinusoids
from weft.nn.transformer.norm import EPSILON
from weft.settings import Settings

SUPPORTED: Final[dict[str, tuple[object, ...]]] = {
    "norm": ("post", "pre"),
    "positions": ("sinusoid", "learned"),
    "activation": ("relu", "gelu", "gelu_tanh", "silu"),
    "norm_epsilon": (EPSILON,),
    "embedding_norm": (False,),
    "attention_scale": ("sqrt_d", "sqrt_max"),
    "attention_hard": (False,),
}
"""Settings that other software has too, and the values it supports."""


ExportedModel = Translator | LanguageModel | PrefixTranslator
"""Models that write texts and have weights as below."""


class Affine(NamedTuple):
    """A map, weight (out, in) and bias (out), or a norm, weight and bias (D)."""

    weight: Tensor
    bias: Tensor

    @classmethod
    def of(cls, module: nn.Linear | nn.LayerNorm) -> Self:
        weight = module.weight.detach().float().cpu()
        bias = weight.new_zeros(weight.size(0)) if module.bias is None else module.bias.detach().float().cpu()
        return cls(weight, bias)

    def rows(self, order: Tensor) -> Self:
        """Reorder its outputs."""
        return type(self)(self.weight[order], self.bias[order])

    def columns(self, order: Tensor) -> Self:
        """Reorder its inputs."""
        return type(self)(self.weight[:, order], self.bias)

    def parts(self, count: int) -> list[Self]:
        """Split a map that is computed in one product into its maps."""
        pairs = zip(self.weight.chunk(count), self.bias.chunk(count), strict=True)
        return [type(self)(weight, bias) for weight, bias in pairs]


@dataclass(frozen=True)
class Attention:
    """Maps from the stream, or for keys and values from the encoder's output, and `output` back to the stream."""

    query: Affine
    key: Affine
    value: Affine
    output: Affine
    norm: Affine

    def reordered(self, order: Tensor) -> Attention:
        query, key, value = (part.columns(order) for part in (self.query, self.key, self.value))
        return Attention(query, key, value, self.output.rows(order), self.norm.rows(order))


@dataclass(frozen=True)
class LayerWeights:
    """The weights of one block; `cross` only in the decoder of a translator."""

    attention: Attention
    cross: Attention | None
    inner: Affine
    outer: Affine
    norm: Affine

    def reordered(self, order: Tensor) -> LayerWeights:
        return LayerWeights(
            self.attention.reordered(order),
            self.cross and self.cross.reordered(order),
            self.inner.columns(order),
            self.outer.rows(order),
            self.norm.rows(order),
        )


@dataclass(frozen=True)
class Stack:
    """table (V, D) is read at `scale` times its values; positions (P, D) are added; `end` is the norm after the last
    layer of a pre-norm stack."""

    settings: TransformerConfig
    table: Tensor
    scale: float
    positions: Tensor
    layers: tuple[LayerWeights, ...]
    end: Affine | None

    def reordered(self, order: Tensor) -> Stack:
        return replace(
            self,
            table=self.table[:, order],
            positions=self.positions[:, order],
            layers=tuple(layer.reordered(order) for layer in self.layers),
            end=self.end and self.end.rows(order),
        )


@dataclass(frozen=True)
class Weights:
    """A translator, or without an encoder a language model. `tied` says that the output uses the decoder's table,
    `one_table` that the encoder does too; `separated`, that a decoder alone reads sources before the start token."""

    encoder: Stack | None
    decoder: Stack
    output: Affine
    tied: bool
    one_table: bool
    separated: bool = False

    def longest(self, wanted: int) -> int:
        """Return `wanted`, or the number of positions after the start token if that is less."""
        return min(wanted, self.decoder.positions.size(0) - 1)

    def reordered(self, order: Tensor) -> Weights:
        """Reorder the features of the stream; the function stays the same."""
        encoder = self.encoder and self.encoder.reordered(order)
        output = self.output.columns(order)
        return replace(self, encoder=encoder, decoder=self.decoder.reordered(order), output=output)


def read_weights(model: ExportedModel, settings: Settings, *, places: int = 0) -> Weights:
    """Return the weights of a model built with those settings; a ConfigError where only weft has such a model.

    Sinusoids exist for every position; in other software they are a table, of `places` rows or more.
    """
    encoder, one_table = None, False
    table = model.decoder.embedding
    if isinstance(model, Translator):
        assert isinstance(settings, TranslatorConfig)
        encoder = _read_stack(model.encoder, settings.encoder, "model.encoder", places)
        one_table = model.encoder.embedding is table
        decoder = _read_stack(model.decoder, settings.decoder, "model.decoder", places)
    elif isinstance(model, PrefixTranslator):
        decoder = _read_stack(model.decoder, settings.decoder, "model.decoder", places)  # type: ignore[attr-defined]
    else:
        decoder = _read_stack(model.decoder, settings, "model", places)
    tied = getattr(table, "weight", None) is model.output.scores.weight
    separated = isinstance(model, PrefixTranslator)
    return Weights(encoder, decoder, Affine.of(model.output.scores), tied, one_table, separated)


def refuse(where: str, value: object, cure: str, *, beside: str = "") -> ConfigError:
    """Return the error for a setting that a format does not support, or not together with another one."""
    shown = f'"{value}"' if isinstance(value, str) else str(value).lower()
    what = f"has no counterpart in this format{beside and f' beside {beside}'}"
    return ConfigError(what, where=f"{where} = {shown}", cure=cure)


def _read_stack(part: Any, settings: Any, prefix: str, places: int) -> Stack:
    if not settings.has_export:
        raise refuse(f"{prefix}.kind", settings.kind, 'train with kind = "transformer"')
    for name, values in SUPPORTED.items():
        if getattr(settings, name) not in values:
            cure = "train with " + " or ".join(to_json(value) for value in values)
            raise refuse(f"{prefix}.{name}", getattr(settings, name), cure)
    if embedding_size(settings.vectors) != settings.width:
        raise refuse(
            f"{prefix}.embedding", settings.vectors, f"train with vectors as wide as the rest: {settings.width}"
        )
    table = part.embedding
    assert isinstance(table, Vectors)
    end = Affine.of(part.stack.final) if isinstance(part.stack.final, nn.LayerNorm) else None
    layers = tuple(_read_layer(block) for block in part.stack.blocks)
    vectors, positions = table.weight.detach().float().cpu(), _positions(part, settings, places)
    return Stack(settings, vectors, table.scale, positions, layers, end)


def _positions(part: TransformerEncoder | TransformerDecoder, settings: TransformerConfig, places: int) -> Tensor:
    """Return the positions (P, D)."""
    if settings.positions == "sinusoid":
        return sinusoids(torch.arange(max(settings.max_positions, places)), settings.width)
    learned = part.placed.positions
    assert isinstance(learned, LearnedPositions)
    return learned.table.weight.detach().float().cpu()


def _read_layer(block: EncoderBlock | DecoderBlock) -> LayerWeights:
    cross = None
    if isinstance(block, DecoderBlock):
        cross = _read_attention(block.cross, block.around_cross)
    return LayerWeights(
        _read_attention(block.attention, block.around_attention),
        cross,
        Affine.of(block.feedforward.inner),
        Affine.of(block.feedforward.outer),
        Affine.of(_norm(block.around_feedforward)),
    )


def _read_attention(attention: MultiHeadAttention, around: nn.Module) -> Attention:
    if attention.joint is not None:
        query, key, value = Affine.of(attention.joint).parts(3)
    else:
        assert attention.query is not None
        assert attention.memory is not None
        query, (key, value) = Affine.of(attention.query), Affine.of(attention.memory).parts(2)
    return Attention(query, key, value, Affine.of(attention.output), Affine.of(_norm(around)))


def _norm(around: nn.Module) -> nn.LayerNorm:
    norm = around.norm
    assert isinstance(norm, nn.LayerNorm)
    return norm
