"""A label for a whole sequence: encode, pool over time, score."""

from __future__ import annotations

from pydantic import Field, field_validator
from torch import Tensor, nn

from weft.models.embedding import TokenDropout, build_embedding
from weft.models.recurrent import EncoderConfig
from weft.nn import POOLINGS, Pooling
from weft.settings import known


class ClassifierConfig(EncoderConfig):
    """A recurrent encoder whose states are pooled into one vector."""

    pooling: str = "attention"
    """How the states over time become one vector: last, mean, max or attention."""
    word_dropout: float = Field(0.1, ge=0.0, lt=1.0)
    """Share of tokens replaced by the unknown one in training."""

    @field_validator("pooling")
    @classmethod
    def _known_pooling(cls, pooling: str) -> str:
        return known(pooling, POOLINGS)

    def build(self, vocabulary: int, labels: int) -> Classifier:
        return Classifier(self, vocabulary, labels)


class Classifier(nn.Module):
    """tokens -> states -> one vector -> a score for each label."""

    def __init__(self, config: ClassifierConfig, vocabulary: int, labels: int) -> None:
        super().__init__()
        self.word_dropout = TokenDropout(config.word_dropout)
        self.encoder = config.build_encoder(build_embedding(config.embedding, vocabulary))
        self.pooling = Pooling(config.pooling, self.encoder.output_size)
        self.scores = nn.Linear(self.encoder.output_size, labels)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """tokens (B, T), lengths (B) -> logits (B, labels)."""
        memory = self.encoder(self.word_dropout(tokens), lengths)
        return self.scores(self.pooling(memory.states, lengths))  # type: ignore[no-any-return]
