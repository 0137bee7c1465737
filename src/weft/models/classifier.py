"""A label for a whole sequence: encode, pool over time, score."""

from __future__ import annotations

from typing import ClassVar, Final, Protocol

import torch
from pydantic import Field, field_validator
from torch import Tensor, nn

from weft.models.bag import BagConfig
from weft.models.embedding import TokenDropout, build_embedding
from weft.models.memory import EncoderSettings
from weft.models.recurrent import RecurrentEncoderConfig
from weft.models.transformer import TransformerEncoderConfig
from weft.nn import POOLINGS, Packing, Pooling
from weft.nn.positions import BOUNDED
from weft.settings import Settings, known


class PooledSettings(Settings):
    """The settings of a classifier beside those of its encoder."""

    pooling: str = "attention"
    """How the states over time become one vector: last, mean, max or attention."""
    word_dropout: float = Field(0.1, ge=0.0, lt=1.0)
    """Share of tokens replaced by the unknown one in training."""

    @field_validator("pooling")
    @classmethod
    def _known_pooling(cls, pooling: str) -> str:
        return known(pooling, POOLINGS)


class RecurrentClassifierConfig(PooledSettings, RecurrentEncoderConfig):
    """A recurrent encoder whose states are pooled into one vector."""


class TransformerClassifierConfig(PooledSettings, TransformerEncoderConfig):
    """A transformer encoder whose states are pooled into one vector."""

    has_export: ClassVar[bool] = False
    counted: ClassVar[tuple[str, ...]] = BOUNDED


CLASSIFIERS: Final[dict[str, type[Settings]]] = {
    "rnn": RecurrentClassifierConfig,
    "transformer": TransformerClassifierConfig,
    "bag": BagConfig,
}
"""The settings of `[model]` for a classifier, by their `kind`."""


class ClassifierSettings(EncoderSettings, Protocol):
    """The settings that all classifiers have."""

    @property
    def pooling(self) -> str: ...

    @property
    def word_dropout(self) -> float: ...


class Classifier(nn.Module):
    """tokens -> states -> one vector -> a score for each label."""

    def __init__(self, config: ClassifierSettings, vocabulary: int, labels: int) -> None:
        super().__init__()
        self.word_dropout = TokenDropout(config.word_dropout)
        self.encoder = config.build_encoder(build_embedding(config.vectors, vocabulary))
        self.pooling = Pooling(config.pooling, self.encoder.output_size)
        self.scores = nn.Linear(self.encoder.output_size, labels)

    @property
    def packs(self) -> bool:
        """Whether it takes packed batches."""
        return self.encoder.packs

    @torch.no_grad()
    def divide_logits(self, temperature: float) -> None:
        """Divide all logits by a temperature from now on, by dividing the weights."""
        self.scores.weight.div_(temperature)
        self.scores.bias.div_(temperature)

    def forward(self, tokens: Tensor, lengths: Tensor | Packing) -> Tensor:
        """tokens (B, T), lengths (B) -> logits (B, labels); or packed, tokens (N) and their `Packing`."""
        return self.scores(self.pool(self.word_dropout(tokens), lengths))  # type: ignore[no-any-return]

    def pool(self, tokens: Tensor, lengths: Tensor | Packing) -> Tensor:
        """tokens (B, T), lengths (B) -> the vector of each row, (B, D), that `scores` reads."""
        if self.pooling.kind == "last":
            return self.encoder.last(tokens, lengths)
        states = self.encoder(tokens, lengths).states
        if isinstance(lengths, Packing):
            states, lengths = lengths.pad(states), lengths.lengths
        return self.pooling(states, lengths)  # type: ignore[no-any-return]
