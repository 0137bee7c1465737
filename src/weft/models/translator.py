"""Encoder and decoder, any with any, and the scores of the next target token."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final, Literal, Protocol

from pydantic import Field

from weft.models.decoders import RecurrentDecoderConfig
from weft.models.embedding import build_embedding
from weft.models.encoder_decoder import EncoderDecoder
from weft.models.memory import DecoderSettings, EncoderSettings
from weft.models.pair import PairModel
from weft.models.prefix import PrefixConfig
from weft.models.recurrent import RecurrentSourceConfig
from weft.models.transformer import TransformerDecoderConfig, TransformerEncoderConfig
from weft.settings import OneOf, Settings, Unread

ENCODERS: Final[dict[str, type[Settings]]] = {"rnn": RecurrentSourceConfig, "transformer": TransformerEncoderConfig}
"""The settings of `[model.encoder]`, by their `kind`."""

DECODERS: Final[dict[str, type[Settings]]] = {"rnn": RecurrentDecoderConfig, "transformer": TransformerDecoderConfig}
"""The settings of `[model.decoder]`, by their `kind`."""


class TranslatorConfig(Settings):
    """An encoder that reads the source and a decoder that writes the target."""

    kind: Literal["encoder_decoder"] = "encoder_decoder"
    encoder: Annotated[EncoderSettings, OneOf(ENCODERS)] = Field(default_factory=RecurrentSourceConfig)
    decoder: Annotated[DecoderSettings, OneOf(DECODERS)] = Field(default_factory=RecurrentDecoderConfig)

    def unread(self) -> Iterator[Unread]:
        if self.decoder.reads_last_state_only:
            for found in self.encoder.unread_outputs():
                yield found._replace(name=f"encoder.{found.name}")
        if self.encoder.has_export and self.decoder.has_export:
            return
        for name, side in (("encoder", self.encoder), ("decoder", self.decoder)):
            for found in side.unread_without_export():
                yield found._replace(name=f"{name}.{found.name}")

    @property
    def attends(self) -> bool:
        """Whether there are attention weights over the source."""
        return not self.decoder.reads_last_state_only

    def row_tokens(self, source: int, target: int) -> int:
        """The positions that a network needs for so many tokens on each side."""
        return max(source, target)

    def build(self, source: int, target: int, *, shared: bool) -> Translator:
        """`source` and `target` are vocabulary sizes; `shared` says that they are one vocabulary."""
        return Translator(self, source, target, shared=shared)


TRANSLATORS: Final[dict[str, type[Settings]]] = {"encoder_decoder": TranslatorConfig, "prefix": PrefixConfig}
"""The settings of `[model]` for pairs, by their `kind`."""


class PairSettings(Protocol):
    """The settings of a model of pairs."""

    @property
    def attends(self) -> bool:
        """Whether there are attention weights over the source."""

    def row_tokens(self, source: int, target: int) -> int:
        """The positions that a network needs for so many tokens on each side."""

    def build(self, source: int, target: int, *, shared: bool) -> PairModel:
        """`source` and `target` are vocabulary sizes; `shared` says that they are one vocabulary."""


class Translator(EncoderDecoder):
    """source -> Memory -> hidden states of the target -> logits.

    Where the vocabulary is shared and both embeddings have the same size and scale, there is one table for both sides,
    and for a tied output too.
    """

    def __init__(self, config: TranslatorConfig, source: int, target: int, *, shared: bool) -> None:
        reads, writes = config.encoder, config.decoder
        same = (reads.vectors, reads.scales_vectors) == (writes.vectors, writes.scales_vectors)
        embedding = build_embedding(reads.vectors, source, scaled=reads.scales_vectors)
        encoder = reads.build_encoder(embedding)
        super().__init__(encoder, writes, target, embedding=embedding if shared and same else None)
