"""A vector for a word from its characters: recurrent from both ends, or convolutional.

    rnn   s = [ h→ ; h← ], the last state in each direction
    cnn   s = [ … ; max_t tanh(W_k [x_t; …; x_{t+k-1}] + b_k) ; … ] over the widths k (Kim et al., 2016)
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, NamedTuple, Protocol

import torch
from pydantic import BeforeValidator, Field
from torch import Tensor, nn
from torch.nn.functional import pad

from weft import limits
from weft.errors import ConfigError
from weft.models.embedding import build_embedding
from weft.nn import RNN, TimeDropout, length_mask
from weft.settings import OneOf, Settings, Size

LETTER_SIZE = 32
"""The size of a character's vector at most, unless it is set."""


class Spelling(NamedTuple):
    """Characters (U, C) of the distinct words of a batch, their lengths (U), and the index of each word (B, T)."""

    characters: Tensor
    lengths: Tensor
    where: Tensor


class SpellerSettings(Protocol):
    """The settings of a net that reads the characters of a word."""

    @property
    def output_size(self) -> int: ...

    def build(self, vocabulary: int, *, dropout: float) -> Speller: ...


class RecurrentSpellerConfig(Settings):
    """A recurrent net over the characters, from both ends."""

    kind: Literal["rnn"] = "rnn"
    hidden: Size = 64
    """Units in each direction."""
    embedding: Size = Field(default_factory=lambda before: min(LETTER_SIZE, before.get("hidden", LETTER_SIZE)))
    """Size of a character's vector; by default 32, or `hidden` if that is less."""

    @property
    def output_size(self) -> int:
        return 2 * self.hidden

    def build(self, vocabulary: int, *, dropout: float) -> Speller:
        return RecurrentSpeller(self, vocabulary, dropout=dropout)


class ConvolutionalSpellerConfig(Settings):
    """Convolutions over the characters, and their largest values."""

    kind: Literal["cnn"] = "cnn"
    hidden: Size = 64
    """Filters of each width."""
    widths: list[Annotated[int, Field(ge=1, le=limits.LAYERS)]] = Field(
        default_factory=lambda: [2, 3, 4], min_length=1, max_length=limits.LAYERS
    )
    """Characters that the filters look at together, a list."""
    embedding: Size = Field(default_factory=lambda before: min(LETTER_SIZE, before.get("hidden", LETTER_SIZE)))
    """Size of a character's vector; by default 32, or `hidden` if that is less."""

    @property
    def output_size(self) -> int:
        return self.hidden * len(self.widths)

    def build(self, vocabulary: int, *, dropout: float) -> Speller:
        return ConvolutionalSpeller(self, vocabulary, dropout=dropout)


SPELLERS: Final[dict[str, type[Settings]]] = {"rnn": RecurrentSpellerConfig, "cnn": ConvolutionalSpellerConfig}
"""The settings of `characters` in a tagger, by their `kind`."""


def read_characters(value: Any) -> Any:
    """A number is short for a recurrent net with so many units; 0 stands for no net."""
    if isinstance(value, bool) or not isinstance(value, int):
        return value
    if value < 0 or value > limits.SIZE:
        raise ConfigError(f"{value} is not in 0 … {limits.SIZE:,}", cure="0 leaves spelling out")
    return {"kind": "rnn", "hidden": value} if value else None


CharactersSetting = Annotated[
    Annotated[SpellerSettings, OneOf(SPELLERS)] | None, BeforeValidator(read_characters)
]


class Speller(nn.Module):
    """Words as their characters; a speller fills in `read`."""

    def __init__(self, embedding: int, vocabulary: int, output_size: int, *, dropout: float) -> None:
        super().__init__()
        self.embedding = build_embedding(embedding, vocabulary)
        self.dropout = TimeDropout(dropout)
        self.output_size = output_size

    def forward(self, spelling: Spelling) -> Tensor:
        """-> (B, T, output_size)."""
        letters = self.dropout(self.embedding(spelling.characters))
        return self.read(letters, spelling.lengths)[spelling.where]

    def read(self, letters: Tensor, lengths: Tensor) -> Tensor:
        """letters (U, C, E), lengths (U) -> (U, output_size)."""
        raise NotImplementedError


class RecurrentSpeller(Speller):
    """A word as the last states of an LSTM from both ends."""

    def __init__(self, config: RecurrentSpellerConfig, vocabulary: int, *, dropout: float) -> None:
        super().__init__(config.embedding, vocabulary, config.output_size, dropout=dropout)
        self.rnn = RNN("lstm", config.embedding, config.hidden, bidirectional=True)

    def read(self, letters: Tensor, lengths: Tensor) -> Tensor:
        _, state = self.rnn(letters, lengths=lengths)
        (ahead, back) = state[-1]
        return torch.cat([ahead.h, back.h], dim=-1)


class ConvolutionalSpeller(Speller):
    """A word as the largest value that each filter finds in it. A word is read with k - 1 zeros after it."""

    def __init__(self, config: ConvolutionalSpellerConfig, vocabulary: int, *, dropout: float) -> None:
        super().__init__(config.embedding, vocabulary, config.output_size, dropout=dropout)
        self.filters = nn.ModuleList(nn.Linear(width * config.embedding, config.hidden) for width in config.widths)
        self.widths = config.widths

    def read(self, letters: Tensor, lengths: Tensor) -> Tensor:
        outside = ~length_mask(lengths, letters.size(1))[..., None]
        letters = letters.masked_fill(outside, 0.0)
        found = []
        for width, filters in zip(self.widths, self.filters, strict=True):
            windows = pad(letters, (0, 0, 0, width - 1)).unfold(1, width, 1).transpose(2, 3).flatten(2)
            found.append(torch.tanh(filters(windows)).masked_fill(outside, -1.0).amax(1))
        return torch.cat(found, dim=-1)
