"""A recurrent language model: P(w_t | w_1 … w_{t-1}) = softmax(W h_{t-1} + b)."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from weft.models.embedding import Output, build_embedding
from weft.models.recurrent import RecurrentConfig
from weft.models.stepper import Step
from weft.nn import TimeDropout


class LanguageModelConfig(RecurrentConfig):
    """Recurrent layers over the tokens so far, and a score for each token that may follow."""

    tie: bool = True
    """Score the next token with the table of embeddings."""

    def build(self, vocabulary: int) -> LanguageModel:
        return LanguageModel(self, vocabulary)


class LanguageModel(nn.Module):
    """Tokens -> hidden states -> logits of the next token; `start` and `step` do the same one token at a time."""

    def __init__(self, config: LanguageModelConfig, vocabulary: int) -> None:
        super().__init__()
        self.embedding = build_embedding(config.embedding, vocabulary)
        self.dropout = TimeDropout(config.dropout)
        self.rnn = config.build_rnn(self.embedding.embedding_dim)
        self.output = Output(self.rnn.output_size, vocabulary, tied=self.embedding if config.tie else None)

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens (B, T) -> hidden (B, T, D). Causal, so padding at the end changes nothing before it."""
        hidden, _ = self.rnn(self.dropout(self.embedding(tokens)))
        return self.dropout(hidden)  # type: ignore[no-any-return]

    def start(self, memory: None, rows: Tensor) -> Any:
        """The state before the first token, for as many hypotheses as there are rows."""
        return self.rnn.initial_state(rows.numel(), next(self.parameters()))

    def step(self, tokens: Tensor, state: Any) -> Step:
        """tokens (N) -> logits (N, V) of the token after each."""
        hidden, state = self.rnn.step(self.embedding(tokens), state)
        return Step(self.output(hidden), state)
