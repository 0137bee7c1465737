"""From token ids to vectors, and from vectors back to a score for every token."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.models.pretrained import EmbeddingSetting, VectorSource
from weft.nn.cross_entropy import linear_cross_entropy
from weft.nn.linear import Linear
from weft.settings import Unread
from weft.text import PAD, UNK


def has_table(before: Mapping[str, Any]) -> bool:
    """The default of `tie`, given the settings before it: true where there is a table of embeddings that learns."""
    embedding = before.get("embedding")
    return embedding.tune if isinstance(embedding, VectorSource) else embedding != "onehot"


def untied(embedding: EmbeddingSetting | None) -> Iterator[Unread]:
    """The message for a `tie` without a table of embeddings."""
    if embedding == "onehot":
        yield Unread("tie", "ties nothing: one-hot vectors have no table", "remove it, or give embedding a size")


class OneHot(nn.Module):
    """Each token as its indicator vector, without weights; `embedding_dim` is the size of the vocabulary."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.embedding_dim = vocabulary
        self.like: Tensor
        self.register_buffer("like", torch.empty(0), persistent=False)  # has the type of the model

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens (...) -> (..., V)."""
        return F.one_hot(tokens, self.embedding_dim).to(self.like.dtype)


class Vectors(nn.Embedding):
    """A learned vector of `size` numbers for each token; padding is the zero vector and learns nothing.

    The table starts at a scale of 1/√size, which suits an output tied to it. Vectors are multiplied by √size: the input
    of a network then starts at a scale of 1; with a smaller one a recurrent net takes many times as long to learn.
    `scaled=False` leaves them as they are.

    `source` says which vectors are to be put into the table before training, and whether they learn (`fill`).
    """

    def __init__(self, vocabulary: int, size: int, *, source: VectorSource | None = None, scaled: bool = True) -> None:
        super().__init__(vocabulary, size, padding_idx=PAD)
        self.source, self.scaled = source, scaled
        self.weight.requires_grad_(source is None or source.tune)
        with torch.no_grad():
            self.weight.normal_(std=size**-0.5)
            self.weight[PAD] = 0.0

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens (...) -> (..., size)."""
        vectors = F.embedding(tokens, self.weight, padding_idx=PAD)
        return vectors * self.scale if self.scaled else vectors

    @torch.no_grad()
    def fill(self, tokens: Tensor, vectors: Tensor) -> None:
        """Put vectors (N, size) into the rows of tokens (N,); padding stays 0.

        All are scaled by one number to a mean squared length of 1, the scale at which the table starts.
        """
        real = tokens != PAD
        mean = vectors[real].square().sum(1).mean().sqrt()
        self.weight[tokens[real]] = (vectors[real] / mean.clamp(min=1e-12)).to(self.weight)

    @property
    def scale(self) -> float:
        """The factor of the vectors that `forward` returns."""
        return math.sqrt(self.embedding_dim) if self.scaled else 1.0


Embedding = Vectors | OneHot


def build_embedding(setting: EmbeddingSetting, vocabulary: int, *, scaled: bool = True) -> Embedding:
    """Learned vectors of that size, one-hot ones, or a table for vectors from a file."""
    if isinstance(setting, VectorSource):
        return Vectors(vocabulary, setting.size or 1, source=setting, scaled=scaled)
    return OneHot(vocabulary) if setting == "onehot" else Vectors(vocabulary, setting, scaled=scaled)


class TokenDropout(nn.Module):
    """In training, replace each token by the unknown one with probability `rate`: a model learns to do without."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens (B, T) -> (B, T)."""
        if not self.training or self.rate == 0.0:
            return tokens
        dropped = torch.rand(tokens.shape, device=tokens.device) < self.rate
        return tokens.masked_fill(dropped & (tokens != PAD), UNK)


class Output(nn.Module):
    """Scores for every token: z = W h + b. Tied, W is the embedding table and h is first mapped to its width."""

    def __init__(self, hidden_size: int, vocabulary: int, *, tied: Embedding | None = None) -> None:
        super().__init__()
        self.narrow: nn.Linear | None = None
        if isinstance(tied, Vectors):
            if hidden_size != tied.embedding_dim:
                self.narrow = Linear(hidden_size, tied.embedding_dim, bias=False)
            hidden_size = tied.embedding_dim
        self.scores = Linear(hidden_size, vocabulary)
        nn.init.zeros_(self.scores.bias)
        if isinstance(tied, Vectors):
            self.scores.weight = tied.weight

    def forward(self, hidden: Tensor) -> Tensor:
        """hidden (..., D) -> logits (..., V)."""
        return self.scores(self.narrowed(hidden))  # type: ignore[no-any-return]

    def loss(self, hidden: Tensor, targets: Tensor, *, label_smoothing: float = 0.0) -> Tensor:
        """hidden (N, D), targets (N,) -> sum of the N cross-entropies in float32; N × V scores are never in memory."""
        hidden, weight, bias = self.narrowed(hidden), self.scores.weight, self.scores.bias
        return linear_cross_entropy(hidden, weight, bias, targets, label_smoothing=label_smoothing)

    def narrowed(self, hidden: Tensor) -> Tensor:
        """hidden (..., D) -> the same in the width that `scores` reads."""
        return hidden if self.narrow is None else self.narrow(hidden)
