"""A masked language model: the probability of each hidden token, given all tokens around it.

    h_1..h_T = encoder(w_1..w_T)
    v_t = LN(g(W h_t + b))                the transform; without it v_t = h_t
    P(w_t) = softmax(E v_t + c)           E the table of embeddings where they are tied, c a bias of each token

This is the head of BERT (Devlin et al., 2019), RoBERTa and DistilBERT. D width of the states, V tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Final, Literal, Protocol

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from weft.models.embedding import Output, Vectors, build_embedding, has_table, untied
from weft.models.headed import HeadedKinds
from weft.models.memory import EncoderSettings
from weft.models.recurrent import RecurrentEncoderConfig
from weft.models.transformer import TransformerEncoderConfig
from weft.nn import Packing
from weft.nn.linear import Linear
from weft.nn.positions import BOUNDED
from weft.nn.transformer.norm import LayerNorm
from weft.settings import Positive, Settings, Unread

ACTIVATIONS: Final[dict[str, Callable[[Tensor], Tensor]]] = {"gelu": F.gelu, "relu": F.relu, "tanh": torch.tanh}
"""The function g of the transform, by name."""


class MaskedSettings(Settings):
    """The settings of a masked language model beside those of its encoder."""

    transform: bool = True
    """A layer with a norm between the states and the scores of tokens."""
    transform_activation: Literal["gelu", "relu", "tanh"] = "gelu"
    """The function of that layer."""
    transform_epsilon: Positive = 1e-5
    """The number that its norm adds to the variance."""
    tie: bool = Field(default_factory=has_table)
    """Score tokens with the table of embeddings; one-hot vectors have none."""

    def unread(self) -> Iterator[Unread]:
        yield from super().unread()
        yield from untied(getattr(self, "embedding", None))
        if not self.transform:
            for name in ("transform_activation", "transform_epsilon"):
                yield Unread(name, "does nothing with transform = false", "remove one of the two")


class RecurrentMaskedConfig(MaskedSettings, RecurrentEncoderConfig):
    """A recurrent encoder that predicts hidden tokens, from both sides by default."""


class TransformerMaskedConfig(MaskedSettings, TransformerEncoderConfig):
    """A transformer encoder that predicts hidden tokens."""

    has_export: ClassVar[bool] = False
    counted: ClassVar[tuple[str, ...]] = BOUNDED


MASKED_MODELS: Final = HeadedKinds(
    {"rnn": RecurrentMaskedConfig, "transformer": TransformerMaskedConfig}, MaskedSettings
)
"""The settings of `[model]` for a masked language model, by their `kind`."""


class MaskedModelSettings(EncoderSettings, Protocol):
    """The settings that all masked language models have."""

    @property
    def transform(self) -> bool: ...

    @property
    def transform_activation(self) -> str: ...

    @property
    def transform_epsilon(self) -> float: ...

    @property
    def tie(self) -> bool: ...


class Transform(nn.Module):
    """LN(g(W h + b)), from the width of the states to that of the scores."""

    def __init__(self, size: int, output_size: int, *, activation: str, epsilon: float) -> None:
        super().__init__()
        self.dense = Linear(size, output_size)
        self.activation = ACTIVATIONS[activation]
        self.norm = LayerNorm(output_size, eps=epsilon)

    def forward(self, hidden: Tensor) -> Tensor:
        """hidden (..., D) -> (..., E)."""
        return self.norm(self.activation(self.dense(hidden)))  # type: ignore[no-any-return]


class MaskedOutput(nn.Module):
    """States -> scores of every token, through the transform if there is one."""

    def __init__(self, config: MaskedModelSettings, size: int, vocabulary: int, *, embedding: Any) -> None:
        super().__init__()
        tied = embedding if config.tie and isinstance(embedding, Vectors) else None
        self.transform: Transform | None = None
        if config.transform:
            wide = size if tied is None else tied.embedding_dim
            options = {"activation": config.transform_activation, "epsilon": config.transform_epsilon}
            self.transform, size = Transform(size, wide, **options), wide  # type: ignore[arg-type]
        self.scores = Output(size, vocabulary, tied=tied)

    def forward(self, hidden: Tensor) -> Tensor:
        """hidden (..., D) -> logits (..., V)."""
        return self.scores(self.transformed(hidden))  # type: ignore[no-any-return]

    def loss(self, hidden: Tensor, targets: Tensor, *, label_smoothing: float = 0.0) -> Tensor:
        """hidden (N, D), targets (N,) -> sum of the N cross-entropies in float32."""
        return self.scores.loss(self.transformed(hidden), targets, label_smoothing=label_smoothing)

    def transformed(self, hidden: Tensor) -> Tensor:
        """hidden (..., D) -> what the scores are computed from."""
        return hidden if self.transform is None else self.transform(hidden)


class MaskedLanguageModel(nn.Module):
    """Tokens, some of them hidden -> states; `output` scores the tokens that may stand at any of them."""

    def __init__(self, config: MaskedModelSettings, vocabulary: int) -> None:
        super().__init__()
        embedding = build_embedding(config.vectors, vocabulary, scaled=config.scales_vectors)
        self.encoder = config.build_encoder(embedding)
        self.output = MaskedOutput(config, self.encoder.output_size, vocabulary, embedding=embedding)

    @property
    def packs(self) -> bool:
        """Whether it takes packed batches."""
        return self.encoder.packs

    def forward(self, tokens: Tensor, lengths: Tensor | Packing) -> Tensor:
        """tokens (B, T), lengths (B) -> states (B, T, D); or packed, tokens (N) -> (N, D)."""
        states: Tensor = self.encoder(tokens, lengths).states
        return states
