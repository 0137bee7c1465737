"""A label for a whole sequence: encode, pool over time, score."""

from __future__ import annotations

from typing import ClassVar, Final, Protocol

import torch
from pydantic import Field, field_validator
from torch import Tensor, nn

from weft.models.bag import Bag, BagConfig, BagRegressorConfig
from weft.models.embedding import TokenDropout
from weft.models.headed import HeadedKinds
from weft.models.heads import EVEN, DecisionSettings, HeadSettings, HiddenLayers, SequenceInputs, build_input
from weft.models.memory import EncoderSettings
from weft.models.recurrent import RecurrentEncoderConfig
from weft.models.transformer import TransformerEncoderConfig
from weft.nn import POOLINGS, Packing, Pooling
from weft.nn.positions import BOUNDED
from weft.settings import known


class PooledSettings(HeadSettings):
    """The settings of a classifier beside those of its encoder."""

    pooling: str = "attention"
    """How the states over time become one vector: first, last, mean, max or attention."""
    word_dropout: float = Field(0.1, ge=0.0, lt=1.0)
    """Share of tokens replaced by the unknown one in training."""

    @field_validator("pooling")
    @classmethod
    def _known_pooling(cls, pooling: str) -> str:
        return known(pooling, POOLINGS)

    def build_classifier(self: ClassifierSettings, inputs: SequenceInputs, labels: int) -> Classifier:
        vocabulary = 0 if inputs.tokenizer is None else len(inputs.tokenizer)
        return Classifier(self, vocabulary, labels, features=inputs.features)


class RecurrentClassifierConfig(DecisionSettings, PooledSettings, RecurrentEncoderConfig):
    """A recurrent encoder whose states are pooled into one vector."""


class TransformerClassifierConfig(DecisionSettings, PooledSettings, TransformerEncoderConfig):
    """A transformer encoder whose states are pooled into one vector."""

    has_export: ClassVar[bool] = False
    counted: ClassVar[tuple[str, ...]] = BOUNDED


class RecurrentRegressorConfig(PooledSettings, RecurrentEncoderConfig):
    """A recurrent encoder whose states are pooled into one vector, from which a number is computed."""


class TransformerRegressorConfig(PooledSettings, TransformerEncoderConfig):
    """A transformer encoder whose states are pooled into one vector, from which a number is computed."""

    has_export: ClassVar[bool] = False
    counted: ClassVar[tuple[str, ...]] = BOUNDED


CLASSIFIERS: Final = HeadedKinds(
    {"rnn": RecurrentClassifierConfig, "transformer": TransformerClassifierConfig, "bag": BagConfig},
    DecisionSettings,
    PooledSettings,
)
"""The settings of `[model]` for a classifier, by their `kind`."""

REGRESSORS: Final = HeadedKinds(
    {"rnn": RecurrentRegressorConfig, "transformer": TransformerRegressorConfig, "bag": BagRegressorConfig},
    PooledSettings,
)
"""The settings of `[model]` for a model that gives a number, by their `kind`."""


class ScoringSettings(Protocol):
    """The settings of any model that gives a whole input a score for each label, or a number."""

    def build_classifier(self, inputs: SequenceInputs, labels: int) -> Classifier | Bag:
        """The model; for a number `labels` is 1."""
        ...


class ClassifierSettings(EncoderSettings, Protocol):
    """The settings that all classifiers with a neural encoder have."""

    @property
    def pooling(self) -> str: ...

    @property
    def word_dropout(self) -> float: ...

    @property
    def hidden_sizes(self) -> list[int]: ...

    @property
    def head_activation(self) -> str: ...


class Classifier(nn.Module):
    """tokens -> states -> one vector -> a score for each label.

    With `features`, the input is not tokens but vectors of so many numbers at each step.
    """

    thresholds: Tensor | None
    """The decision threshold of each label (C); None where the likeliest label is the answer."""

    def __init__(
        self, config: ClassifierSettings, vocabulary: int, labels: int, *, features: int | None = None
    ) -> None:
        super().__init__()
        self.features = features
        self.word_dropout = TokenDropout(config.word_dropout)
        first = build_input(config.vectors, vocabulary, features, scaled=config.scales_vectors)
        self.encoder = config.build_encoder(first)
        self.pooling = Pooling(config.pooling, self.encoder.output_size)
        self.head = HiddenLayers(
            self.encoder.output_size,
            config.hidden_sizes,
            activation=config.head_activation,
            dropout=config.dropout,
        )
        self.scores = nn.Linear(self.head.output_size, labels)
        chosen = getattr(config, "thresholds", "none") != "none"
        self.register_buffer("thresholds", torch.full((labels,), EVEN) if chosen else None)

    @property
    def packs(self) -> bool:
        """Whether it takes packed batches."""
        return self.encoder.packs and self.features is None

    @torch.no_grad()
    def divide_logits(self, temperature: float) -> None:
        """Divide all logits by a temperature from now on, by dividing the weights."""
        self.scores.weight.div_(temperature)
        self.scores.bias.div_(temperature)

    def forward(self, tokens: Tensor, lengths: Tensor | Packing) -> Tensor:
        """tokens (B, T), lengths (B) -> logits (B, labels); or packed, tokens (N) and their `Packing`."""
        vectors = self.pool(tokens if self.features else self.word_dropout(tokens), lengths)
        return self.scores(self.head(vectors))  # type: ignore[no-any-return]

    def pool(self, tokens: Tensor, lengths: Tensor | Packing) -> Tensor:
        """tokens (B, T), lengths (B) -> the vector of each row, (B, D), that `scores` reads."""
        if self.pooling.kind == "last":
            return self.encoder.last(tokens, lengths)
        states = self.encoder(tokens, lengths).states
        if isinstance(lengths, Packing):
            states, lengths = lengths.pad(states), lengths.lengths
        return self.pooling(states, lengths)  # type: ignore[no-any-return]
