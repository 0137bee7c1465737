"""A convolutional decoder: the next token from a fixed number of tokens before it.

x_t  = P e(w_t)                                      P only where embedding and width differ
x'_t = x_t + a_t ⊙ σ(b_t),  [a_t; b_t] = W [x_{t-k+1}; …; x_t] + c          for each layer
h_t  = the last layer's x'_t                         context: layers · (kernel - 1) + 1 tokens
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from weft.models.embedding import Embedding, has_table, untied
from weft.models.memory import Decoded, Decoder, Encoder, PartSettings
from weft.models.pretrained import EmbeddingSetting, embedding_size
from weft.nn import Dropout, State
from weft.nn.conv import GatedConvolution
from weft.settings import Layers, Length, Size, Unread


class ConvolutionalStackConfig(PartSettings):
    """Causal convolutions over embedded steps."""

    kind: Literal["conv"] = "conv"
    embedding: EmbeddingSetting = 256
    """Size of the token vectors, "onehot", or a file of word vectors."""
    width: Size = 256
    """Features of each layer."""
    layers: Layers = 4
    """Convolutions on top of each other."""
    kernel: Length = 4
    """Steps that a convolution sees; together with the layers it bounds how far back the model sees."""
    dropout: float = Field(0.2, ge=0.0, lt=1.0)
    """Share of values dropped in training, on embeddings and after each layer."""

    @property
    def vectors(self) -> EmbeddingSetting:
        return self.embedding


class ConvolutionalConfig(ConvolutionalStackConfig):
    """Causal convolutions over the tokens so far."""

    tie: bool = Field(default_factory=has_table)
    """Score the next token with the table of embeddings; one-hot vectors have none."""

    def unread(self) -> Iterator[Unread]:
        return untied(self.embedding)

    def stack_settings(self) -> dict[str, Any]:
        own = self.model_dump(mode="json", include={"kind", "width", "layers", "kernel"})
        return own | {"embedding": embedding_size(self.embedding) or "onehot"}

    def build_decoder(self, embedding: Embedding, encoder: Encoder | None = None) -> ConvolutionalDecoder:
        return ConvolutionalDecoder(self, embedding)


class ConvolutionalDecoder(Decoder):
    """Tokens -> hidden states that see the last `context` tokens."""

    can_prefill = True

    def __init__(self, config: ConvolutionalStackConfig, embedding: Embedding) -> None:
        super().__init__()
        self.embedding = embedding
        self.dropout = Dropout(config.dropout)
        same = embedding.embedding_dim == config.width
        self.widen = nn.Identity() if same else nn.Linear(embedding.embedding_dim, config.width)
        self.layers = nn.ModuleList(GatedConvolution(config.width, kernel=config.kernel) for _ in range(config.layers))
        self.output_size = config.width
        self.context = config.layers * (config.kernel - 1) + 1

    def forward(self, tokens: Tensor, memory: None = None, lengths: Tensor | None = None) -> Tensor:
        """tokens (B, T) -> hidden (B, T, D). Causal, so padding at the end changes nothing before it."""
        x = self.widen(self.dropout(self.embedding(tokens)))
        for layer in self.layers:
            x = self.dropout(layer(x))
        return x  # type: ignore[no-any-return]

    def each_layer(self) -> list[nn.Module]:
        return list(self.layers)

    def start(self, memory: None, rows: Tensor) -> State:
        """For each layer the inputs before the first: zeros (N, kernel - 1, D)."""
        like = next(self.layers.parameters())
        return tuple(layer.initial_state(rows.numel(), like) for layer in self._stack())

    def prefill_rows(self, tokens: Tensor, lengths: Tensor, state: State) -> State:
        """tokens (N, T), lengths (N,) -> the state after them: only the last `context` tokens of each row count."""
        lengths = lengths.to(tokens.device)
        last = torch.arange(min(tokens.size(1), self.context), device=tokens.device)
        tokens = tokens.gather(1, (lengths[:, None] - self.context).clamp(min=0) + last)
        x, ends, states = self.widen(self.embedding(tokens)), lengths.clamp(max=self.context), []
        for layer, before in zip(self._stack(), state, strict=True):
            x, after = layer.prefill(x, ends, before)
            states.append(after)
        return tuple(states)

    def step(self, tokens: Tensor, state: State) -> Decoded:
        x, states = self.widen(self.embedding(tokens)), []
        for layer, before in zip(self._stack(), state, strict=True):
            x, after = layer.step(x, before)
            states.append(after)
        return Decoded(x, tuple(states), None)

    def _stack(self) -> list[GatedConvolution]:
        return [layer for layer in self.layers if isinstance(layer, GatedConvolution)]
