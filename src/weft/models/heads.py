"""The last part of a classifier, regressor or tagger: from a vector to scores, and from scores to a decision.

    z = W_n g(… g(W_1 v + b_1) …) + b_n          g a function with dropout; without hidden layers z = W v + b

Decision thresholds t of labels are chosen after training. Among labels that exclude each other the answer is the one
with the greatest p / t (of two labels: the second where p > t); of several labels at once all with p ≥ t.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Final, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn

from weft import limits
from weft.errors import ConfigError
from weft.models.embedding import Embedding, build_embedding
from weft.models.pretrained import EmbeddingSetting
from weft.nn import Dropout
from weft.settings import Settings, Size, Unread
from weft.text import Tokenizer

EVEN = 0.5
"""The threshold of a label that others do not exclude, before one is chosen."""

HEAD_ACTIVATIONS: Final[Mapping[str, Callable[[Tensor], Tensor]]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "gelu": nn.functional.gelu,
}
"""Functions of hidden layers, by name."""

HeadSizes = Size | Annotated[list[Size], Field(max_length=limits.LAYERS)]


class HeadSettings(Settings):
    """The layers between the encoder and the output."""

    head: HeadSizes = Field(default_factory=list)
    """Units of a hidden layer before the output, or a list for several; [] is none."""
    head_activation: Literal["relu", "tanh", "gelu"] = "relu"
    """The function of these layers."""

    def unread(self) -> Iterator[Unread]:
        yield from super().unread()
        if not self.hidden_sizes:
            yield Unread("head_activation", "acts on nothing: there are no hidden layers", "remove it, or set head")

    @property
    def hidden_sizes(self) -> list[int]:
        """The units of each hidden layer."""
        return [self.head] if isinstance(self.head, int) else self.head


class DecisionSettings(Settings):
    """How probabilities become labels."""

    thresholds: Literal["none", "f1"] = "none"
    """none answers with the likeliest label, of several with those above one half; f1 learns thresholds from valid."""


class HiddenLayers(nn.Module):
    """v (…, D) -> (…, H), through layers of the given sizes; without any it is the identity."""

    def __init__(self, size: int, hidden: Sequence[int], *, activation: str, dropout: float) -> None:
        super().__init__()
        self.activation = HEAD_ACTIVATIONS[activation]
        sizes = [size, *hidden]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.dropout = Dropout(dropout)
        self.output_size = sizes[-1]

    def forward(self, vectors: Tensor) -> Tensor:
        for layer in self.layers:
            vectors = self.dropout(self.activation(layer(vectors)))
        return vectors


class Projection(nn.Linear):
    """A linear map of feature vectors, in the place of an embedding: standardised features give a scale of 1."""

    def __init__(self, features: int, size: int) -> None:
        super().__init__(features, size)
        self.embedding_dim = size
        with torch.no_grad():
            self.weight.normal_(std=features**-0.5)
            self.bias.zero_()


class SequenceInputs(NamedTuple):
    """The inputs of a model with one answer for each: texts of a tokenizer, or feature vectors of so many numbers."""

    tokenizer: Tokenizer | None = None
    features: int | None = None


def build_input(
    setting: EmbeddingSetting, vocabulary: int, features: int | None, *, scaled: bool = True
) -> Embedding | Projection:
    """The first layer: an embedding of tokens, or a map of feature vectors."""
    if features is None:
        return build_embedding(setting, vocabulary, scaled=scaled)
    if not isinstance(setting, int):
        what = "is for tokens, and the input is feature vectors"
        raise ConfigError(what, where=f'model.embedding = "{setting}"', cure="give the size of their projection")
    return Projection(features, setting)


def decide(logits: Tensor, thresholds: Tensor | None) -> Tensor:
    """logits (N, C) of labels that exclude each other, thresholds (C) -> the number of the answer (N)."""
    if thresholds is None:
        return logits.argmax(-1)
    return (logits.float().log_softmax(-1) - thresholds.log()).argmax(-1)


def decide_each(logits: Tensor, thresholds: Tensor | None) -> Tensor:
    """logits (N, C) of labels of which any may be right, thresholds (C) -> which are in the answer (N, C)."""
    shares = logits.float().sigmoid()
    return shares >= (EVEN if thresholds is None else thresholds)
