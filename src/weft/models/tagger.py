"""A label for each word, from the word's own vector and from its spelling.

s_t = the characters of word t as a vector (see speller.py)
h_1..h_T = encoder([ e(w_t) ; s_t ]),   z_t = W g(h_t) + b          g hidden layers (`head`), or nothing

The labels of a sentence are independent of each other given z, or with `crf` a chain (see weft.nn.crf).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, NamedTuple, Protocol

import torch
from pydantic import Field
from torch import Tensor, nn

from weft.models.embedding import TokenDropout
from weft.models.heads import HeadSettings, HiddenLayers, build_input
from weft.models.memory import EncoderSettings
from weft.models.pretrained import embedding_size
from weft.models.recurrent import RecurrentEncoderConfig
from weft.models.speller import CharactersSetting, SpellerSettings, Spelling, speller_settings
from weft.models.tagging import ChainTags, IndependentTags, TagDistribution
from weft.models.transformer import TransformerEncoderConfig
from weft.nn.crf import CRF, Legal
from weft.nn.positions import BOUNDED
from weft.settings import Unread


class TaggerSizes(NamedTuple):
    """The data that a tagger is built for: the sizes of its vocabularies, its labels, and the rules of these."""

    words: int
    characters: int
    labels: int
    classes: Tensor
    """The class of each character (characters,), such as capital letter or digit (see hmm/shapes.py)."""
    legal: Legal | None = None
    """The legal sequences of labels, where the labels mark spans."""
    features: int | None = None
    """The numbers of a step, where feature vectors stand in the place of words."""
    subwords: bool = False
    """Whether words are cut into subwords, of which the first has the word's tag."""


class TaggingModel(Protocol):
    """A model that tags: the part that the task needs."""

    def distribution(self, words: Tensor, lengths: Tensor, spelling: Spelling) -> TagDistribution:
        """words (B, T), lengths (B) -> the probability of their tags."""
        ...


class SpelledSettings(HeadSettings):
    """The settings of a tagger beside those of its encoder."""

    characters: CharactersSetting = 64
    """The net that reads a word's characters: its units in each direction, or a table; 0 leaves spelling out."""
    word_dropout: float = Field(0.1, ge=0.0, lt=1.0)
    """Share of words replaced by the unknown one in training, so that spelling and context must serve."""
    crf: bool = False
    """Learn the probability of whole sequences of tags, by a conditional random field over the scores of the words."""

    def build_tagger(self: NetworkSettings, sizes: TaggerSizes) -> Tagger:
        return Tagger(self, sizes)

    def unread_train(self) -> Iterator[Unread]:
        """Settings of `[train]` that have no effect with these."""
        if self.crf:
            why = "smooths single labels, and crf = true learns the probability of whole sequences"
            yield Unread("label_smoothing", why, "remove one of the two")


class RecurrentTaggerConfig(SpelledSettings, RecurrentEncoderConfig):
    """A recurrent encoder with a score for each label at each word."""

    @property
    def input_size(self) -> int | None:
        size, spelled = embedding_size(self.embedding), speller_settings(self.characters)
        return None if size is None else size + (spelled.output_size if spelled else 0)


class TransformerTaggerConfig(SpelledSettings, TransformerEncoderConfig):
    """A transformer encoder with a score for each label at each word."""

    has_export: ClassVar[bool] = False
    counted: ClassVar[tuple[str, ...]] = BOUNDED


class TaggerSettings(Protocol):
    """The settings of any tagger."""

    def build_tagger(self, sizes: TaggerSizes) -> nn.Module:
        """A `TaggingModel`."""
        ...


class NetworkSettings(EncoderSettings, Protocol):
    """The settings that all taggers with a neural encoder have."""

    @property
    def characters(self) -> int | SpellerSettings: ...

    @property
    def word_dropout(self) -> float: ...

    @property
    def crf(self) -> bool: ...

    @property
    def hidden_sizes(self) -> list[int]: ...

    @property
    def head_activation(self) -> str: ...


class Tagger(nn.Module):
    """words and spellings, or feature vectors -> states -> a score for each label at each word or step."""

    packs = False
    """Whether it takes packed batches."""

    def __init__(self, config: NetworkSettings, sizes: TaggerSizes) -> None:
        super().__init__()
        spelled = None if sizes.features or sizes.subwords else speller_settings(config.characters)
        self.features, self.subwords = sizes.features, sizes.subwords
        self.word_dropout = TokenDropout(config.word_dropout)
        self.speller = spelled.build(sizes.characters, dropout=config.dropout) if spelled else None
        extra = self.speller.output_size if self.speller else 0
        first = build_input(config.vectors, sizes.words, sizes.features, scaled=config.scales_vectors)
        self.encoder = config.build_encoder(first, extra=extra)
        self.head = HiddenLayers(
            self.encoder.output_size,
            config.hidden_sizes,
            activation=config.head_activation,
            dropout=config.dropout,
        )
        self.scores = nn.Linear(self.head.output_size, sizes.labels)
        self.crf = CRF(sizes.labels, legal=sizes.legal) if config.crf else None

    def forward(self, words: Tensor, lengths: Tensor, spelling: Spelling) -> Tensor:
        """words (B, T), lengths (B) -> logits (B, T, labels)."""
        return self.scores(self.head(self.encode(words, lengths, spelling)))  # type: ignore[no-any-return]

    def encode(self, words: Tensor, lengths: Tensor, spelling: Spelling) -> Tensor:
        """words (B, T), lengths (B) -> the states of the encoder (B, T, D), which the head reads."""
        if self.subwords:
            states: Tensor = self.encoder(self.word_dropout(spelling.characters), spelling.lengths).states
            return states.gather(1, spelling.where[..., None].expand(-1, -1, states.size(-1)))
        vectors = self.encoder.embedding(words if self.features else self.word_dropout(words))
        if self.speller is not None:
            vectors = torch.cat([vectors, self.speller(spelling)], dim=-1)
        return self.encoder.encode(vectors, lengths).states

    def distribution(self, words: Tensor, lengths: Tensor, spelling: Spelling) -> TagDistribution:
        """words (B, T), lengths (B) -> the probability of their tags."""
        logits = self(words, lengths, spelling)
        return IndependentTags(logits, lengths) if self.crf is None else ChainTags(logits, lengths, self.crf.chain)
