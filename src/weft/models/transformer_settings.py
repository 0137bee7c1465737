"""The settings that the transformers of encoders, decoders and other models share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from weft.models.memory import PartSettings
from weft.models.pretrained import EmbeddingSetting, OptionalEmbedding, embedding_size
from weft.nn import NORMS, POSITIONS
from weft.nn.attention.scores import ScaleName
from weft.nn.positions import BOUNDED
from weft.nn.transformer import Activation
from weft.nn.transformer.norm import EPSILON
from weft.settings import Heads, Layers, Length, Positive, Size, Unread, known


class TransformerConfig(PartSettings):
    """A stack of transformer blocks over embedded tokens."""

    has_export: ClassVar[bool] = True

    counted: ClassVar[tuple[str, ...]] = (*BOUNDED, "sinusoid")
    """The kinds of positions that `max_positions` limits: in the model, or in the table that an export writes."""

    kind: Literal["transformer"] = "transformer"
    embedding: OptionalEmbedding = None
    """Size of the token vectors, "onehot", or a file of word vectors; by default the width."""
    width: Size = 256
    """Features of each position, from the first block to the last."""
    heads: Heads = 4
    """Attention heads of a block."""
    layers: Layers = 3
    """Blocks on top of each other."""
    feedforward: Size | None = None
    """Units between the two maps of a block's feed-forward net; by default four times the width."""
    activation: Activation = "relu"
    """The function between those maps."""
    norm: str = "pre"
    """Where a block normalises: post, pre or rezero (nowhere, but each part starts with weight 0)."""
    norm_epsilon: float = Field(EPSILON, gt=0.0, le=1.0)
    """The number that every norm adds to the variance before it divides by its root."""
    embedding_scale: bool = True
    """Multiply token vectors by the root of their size, so that they start at a scale of 1."""
    embedding_norm: bool = False
    """Normalise the sum of token and position vectors before the first block."""
    positions: str = "sinusoid"
    """How positions are encoded: onehot, learned, joint, sinusoid, sinusoid_concat, rotary or none."""
    max_positions: Length = 1024
    """The number of onehot, learned and joint positions, and of sinusoids in an exported model; others have none."""
    dropout: float = Field(0.1, ge=0.0, lt=1.0)
    """Share of values dropped in training, on embeddings and on what each part of a block adds."""
    attention_dropout: float = Field(0.0, ge=0.0, lt=1.0)
    """Share of attention weights dropped in training."""
    attention_bias: bool = False
    """Biases in the maps of attention."""
    attention_scale: ScaleName | Positive = "sqrt_d"
    """The factor of attention scores: none, sqrt_d or sqrt_max (both 1/√ of a head's size), or a number."""
    attention_hard: bool = False
    """Each head takes the value of its best key alone, and not a mean."""

    @field_validator("norm")
    @classmethod
    def _known_norm(cls, norm: str) -> str:
        return known(norm, NORMS)

    @field_validator("positions")
    @classmethod
    def _known_positions(cls, positions: str) -> str:
        return known(positions, POSITIONS)

    @model_validator(mode="after")
    def _heads_divide_the_width(self) -> TransformerConfig:
        if self.width % self.heads:
            raise ValueError(f"heads = {self.heads} does not divide width = {self.width}")
        if self.positions == "rotary" and self.width // self.heads % 2:
            raise ValueError(f'positions = "rotary" needs heads of an even size, not {self.width // self.heads}')
        return self

    def unread(self) -> Iterator[Unread]:
        if self.positions not in self.counted:
            yield self.unbounded()
        if self.norm == "rezero" and not self.embedding_norm:
            yield Unread("norm_epsilon", 'is added nowhere: norm = "rezero" has no norms', "remove it")
        if self.embedding == "onehot":
            yield Unread("embedding_scale", "scales nothing: one-hot vectors have no table", "remove it")

    def unread_without_export(self) -> Iterator[Unread]:
        if self.longest is None:
            yield self.unbounded()

    def unbounded(self) -> Unread:
        """The message for a `max_positions` that limits nothing."""
        why = f'limits nothing: positions = "{self.positions}" have no limit'
        return Unread("max_positions", why, f"remove it, or choose from {', '.join(BOUNDED)}")

    @property
    def longest(self) -> int | None:
        """The most tokens that it can read, if there is a limit."""
        return self.max_positions if self.positions in BOUNDED else None

    @property
    def vectors(self) -> EmbeddingSetting:
        """The embedding, with its default filled in."""
        return self.width if self.embedding is None else self.embedding

    @property
    def scales_vectors(self) -> bool:
        return self.embedding_scale

    def stack_settings(self) -> dict[str, Any]:
        without = {"dropout", "attention_dropout", *([] if self.longest else ["max_positions"])}
        own = self.model_dump(mode="json", include=set(TransformerConfig.model_fields) - without)
        size = embedding_size(self.vectors)
        # A tagger that also reads characters has positions of another size, which the blocks have not learned.
        own |= {"characters": 0}
        return own | {"feedforward": self.feedforward or 4 * self.width, "embedding": size or "onehot"}

    def block_options(self) -> dict[str, Any]:
        """The options of every block."""
        names = (
            "heads",
            "activation",
            "norm",
            "norm_epsilon",
            "dropout",
            "attention_dropout",
            "attention_bias",
            "attention_scale",
            "attention_hard",
        )
        options = {name: getattr(self, name) for name in names}
        return options | {"feedforward": self.feedforward or 4 * self.width, "rotary": self.positions == "rotary"}
