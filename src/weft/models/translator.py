"""Encoder and decoder, any with any, and the scores of the next target token."""

from __future__ import annotations

from typing import Any

from pydantic import Field
from torch import Tensor, nn

from weft.models.decoders import DecoderConfig
from weft.models.embedding import Output, build_embedding
from weft.models.memory import Memory
from weft.models.recurrent import SourceConfig
from weft.models.stepper import Step
from weft.settings import Settings


class TranslatorConfig(Settings):
    """An encoder that reads the source and a decoder that writes the target."""

    encoder: SourceConfig = Field(default_factory=SourceConfig)
    decoder: DecoderConfig = Field(default_factory=DecoderConfig)

    def build(self, source: int, target: int, *, shared: bool) -> Translator:
        """`source` and `target` are vocabulary sizes; `shared` says that they are one vocabulary."""
        return Translator(self, source, target, shared=shared)


class Translator(nn.Module):
    """source -> Memory -> hidden states of the target -> logits."""

    def __init__(self, config: TranslatorConfig, source: int, target: int, *, shared: bool) -> None:
        super().__init__()
        one_table = shared and config.encoder.embedding == config.decoder.embedding
        embedding = build_embedding(config.encoder.embedding, source)
        self.encoder = config.encoder.build_encoder(embedding)
        self.decoder = config.decoder.build_decoder(
            embedding if one_table else build_embedding(config.decoder.embedding, target), self.encoder
        )
        self.output = Output(
            self.decoder.output_size, target, tied=self.decoder.embedding if config.decoder.tie else None
        )

    def encode(self, source: Tensor, lengths: Tensor) -> Memory:
        """source (B, S), lengths (B) -> Memory."""
        memory: Memory = self.encoder(source, lengths)
        return memory

    def forward(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        """Teacher forcing: source (B, S), target (B, T) that starts with the start token -> hidden (B, T, D)."""
        hidden: Tensor = self.decoder(target, self.encode(source, lengths))
        return hidden

    def start(self, memory: Memory, rows: Tensor) -> Any:
        """The state before the first token; hypothesis n translates sentence rows[n] of the memory."""
        return self.decoder.start(memory, rows)

    def step(self, tokens: Tensor, state: Any) -> Step:
        """tokens (N) -> logits (N, V) of the token after each."""
        hidden, state, attention = self.decoder.step(tokens, state)
        return Step(self.output(hidden), state, attention)
