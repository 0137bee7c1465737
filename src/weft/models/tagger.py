"""A label for each word, from the word's own vector and from its spelling.

s_t = [ h→ ; h← ] of a small recurrent net over the characters of word t
h_1..h_T = encoder([ e(w_t) ; s_t ]),   z_t = W h_t + b
"""

from __future__ import annotations

from typing import ClassVar, Final, NamedTuple, Protocol

import torch
from pydantic import Field
from torch import Tensor, nn

from weft import limits
from weft.models.embedding import TokenDropout, build_embedding
from weft.models.memory import EncoderSettings
from weft.models.pretrained import embedding_size
from weft.models.recurrent import RecurrentEncoderConfig
from weft.models.transformer import TransformerEncoderConfig
from weft.nn import RNN, TimeDropout
from weft.nn.positions import BOUNDED
from weft.settings import Settings


class Spelling(NamedTuple):
    """Characters (U, C) of the distinct words of a batch, their lengths (U), and the index of each word (B, T)."""

    characters: Tensor
    lengths: Tensor
    where: Tensor


class SpelledSettings(Settings):
    """The settings of a tagger beside those of its encoder."""

    characters: int = Field(64, ge=0, le=limits.SIZE)
    """Units, in each direction, of the net that reads a word's characters; 0 leaves spelling out."""
    word_dropout: float = Field(0.1, ge=0.0, lt=1.0)
    """Share of words replaced by the unknown one in training, so that spelling and context must serve."""


class RecurrentTaggerConfig(SpelledSettings, RecurrentEncoderConfig):
    """A recurrent encoder with a score for each label at each word."""

    @property
    def input_size(self) -> int | None:
        size = embedding_size(self.embedding)
        return None if size is None else size + 2 * self.characters


class TransformerTaggerConfig(SpelledSettings, TransformerEncoderConfig):
    """A transformer encoder with a score for each label at each word."""

    has_export: ClassVar[bool] = False
    counted: ClassVar[tuple[str, ...]] = BOUNDED


TAGGERS: Final[dict[str, type[Settings]]] = {"rnn": RecurrentTaggerConfig, "transformer": TransformerTaggerConfig}
"""The settings of `[model]` for a tagger, by their `kind`."""


class TaggerSettings(EncoderSettings, Protocol):
    """The settings that all taggers have."""

    @property
    def characters(self) -> int: ...

    @property
    def word_dropout(self) -> float: ...


class Speller(nn.Module):
    """A word as its characters: the last states of a recurrent net from both ends."""

    def __init__(self, vocabulary: int, size: int, *, dropout: float) -> None:
        super().__init__()
        self.embedding = build_embedding(min(32, size), vocabulary)
        self.dropout = TimeDropout(dropout)
        self.rnn = RNN("lstm", self.embedding.embedding_dim, size, bidirectional=True)
        self.output_size = 2 * size

    def forward(self, spelling: Spelling) -> Tensor:
        """-> (B, T, 2 size)."""
        _, state = self.rnn(self.dropout(self.embedding(spelling.characters)), lengths=spelling.lengths)
        (ahead, back) = state[-1]
        return torch.cat([ahead.h, back.h], dim=-1)[spelling.where]


class Tagger(nn.Module):
    """words and spellings -> states -> a score for each label at each word."""

    packs = False
    """Whether it takes packed batches."""

    def __init__(self, config: TaggerSettings, words: int, characters: int, labels: int) -> None:
        super().__init__()
        self.word_dropout = TokenDropout(config.word_dropout)
        self.speller = Speller(characters, config.characters, dropout=config.dropout) if config.characters else None
        extra = self.speller.output_size if self.speller else 0
        self.encoder = config.build_encoder(build_embedding(config.vectors, words), extra=extra)
        self.scores = nn.Linear(self.encoder.output_size, labels)

    def forward(self, words: Tensor, lengths: Tensor, spelling: Spelling) -> Tensor:
        """words (B, T), lengths (B) -> logits (B, T, labels)."""
        return self.scores(self.encode(words, lengths, spelling))  # type: ignore[no-any-return]

    def encode(self, words: Tensor, lengths: Tensor, spelling: Spelling) -> Tensor:
        """words (B, T), lengths (B) -> the states that `scores` reads (B, T, D)."""
        vectors = self.encoder.embedding(self.word_dropout(words))
        if self.speller is not None:
            vectors = torch.cat([vectors, self.speller(spelling)], dim=-1)
        return self.encoder.encode(vectors, lengths).states
