"""A vector for a word from its characters: recurrent from both ends, or convolutional.

rnn   s = [ h→ ; h← ], the last state in each direction
cnn   s = [ … ; max_t tanh(W_k [x_t; …; x_{t+k-1}] + b_k) ; … ] over the widths k (Kim et al., 2016)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, NamedTuple, Protocol

import torch
from pydantic import Field, PlainSerializer, PlainValidator, ValidationError
from torch import Tensor, nn
from torch.nn.functional import pad

from weft import limits
from weft.errors import ConfigError, did_you_mean
from weft.models.embedding import build_embedding
from weft.nn import RNN, TimeDropout, length_mask
from weft.settings import Settings, Size, explain

LETTER_SIZE = 32
"""The size of a character's vector at most, unless it is set."""

Width = Annotated[int, Field(ge=1, le=limits.LAYERS)]


class Spelling(NamedTuple):
    """Characters (U, C) of the distinct words of a batch, their lengths (U), and the index of each word (B, T).

    In subwords: those of each sentence (B, S), their lengths (B), and the place of the first one of each word (B, T).
    """

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
    widths: Width | Annotated[list[Width], Field(min_length=1, max_length=limits.LAYERS)] = Field(
        default_factory=lambda: [2, 3, 4]
    )
    """Characters that a filter looks at together: a number, or a list with filters for each."""
    embedding: Size = Field(default_factory=lambda before: min(LETTER_SIZE, before.get("hidden", LETTER_SIZE)))
    """Size of a character's vector; by default 32, or `hidden` if that is less."""

    @property
    def each_width(self) -> list[int]:
        return [self.widths] if isinstance(self.widths, int) else self.widths

    @property
    def output_size(self) -> int:
        return self.hidden * len(self.each_width)

    def build(self, vocabulary: int, *, dropout: float) -> Speller:
        return ConvolutionalSpeller(self, vocabulary, dropout=dropout)


SPELLERS: Final[dict[str, type[Settings]]] = {"rnn": RecurrentSpellerConfig, "cnn": ConvolutionalSpellerConfig}
"""The settings of `characters` in a tagger, by their `kind`."""


def read_characters(value: Any) -> int | Settings:
    """Validate a number of units, or a table of a kind and its settings."""
    if isinstance(value, Settings):
        value = value.model_dump()
    if type(value) is int:
        if not 0 <= value <= limits.SIZE:
            what = "is less than 0" if value < 0 else f"is more than {limits.SIZE:,}, the limit"
            raise ConfigError(what, where=f"characters = {value}", cure="0 leaves spelling out")
        return value
    if not isinstance(value, Mapping):
        raise ValueError(f'{value!r} is neither a number nor a table such as {{ kind = "cnn", hidden = 64 }}')
    kind = value.get("kind", next(iter(SPELLERS)))
    if kind not in SPELLERS:
        where = f'characters.kind = "{kind}"'
        raise ConfigError("is not one of " + ", ".join(SPELLERS), where=where, cure=did_you_mean(str(kind), SPELLERS))
    arm = SPELLERS[kind]
    try:
        return arm.model_validate(dict(value))
    except ValidationError as error:
        path = ["characters", *(str(part) for part in error.errors()[0]["loc"])]
        raise explain(error, path, arm.model_fields) from None


def _write_characters(value: int | Settings) -> Any:
    return value.model_dump() if isinstance(value, Settings) else value


CharactersSetting = Annotated[
    Annotated[int, Field(ge=0, le=limits.SIZE)] | SpellerSettings,
    PlainValidator(read_characters),
    PlainSerializer(_write_characters),
]


def speller_settings(characters: int | SpellerSettings) -> SpellerSettings | None:
    """The settings that `characters` stands for: a number is a recurrent net with so many units, 0 none."""
    if not isinstance(characters, int):
        return characters
    return RecurrentSpellerConfig(hidden=characters) if characters else None


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
        self.filters = nn.ModuleList(nn.Linear(width * config.embedding, config.hidden) for width in config.each_width)
        self.widths = config.each_width

    def read(self, letters: Tensor, lengths: Tensor) -> Tensor:
        outside = ~length_mask(lengths, letters.size(1))[..., None]
        letters = letters.masked_fill(outside, 0.0)
        found = []
        for width, filters in zip(self.widths, self.filters, strict=True):
            windows = pad(letters, (0, 0, 0, width - 1)).unfold(1, width, 1).transpose(2, 3).flatten(2)
            found.append(torch.tanh(filters(windows)).masked_fill(outside, -1.0).amax(1))
        return torch.cat(found, dim=-1)
