"""The tokens and words of a text, and the states of a network at its tokens: vectors of words in their context."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from weft.errors import ConfigError
from weft.nn import length_mask
from weft.tasks.word_tables import WordTable, token_tables
from weft.text import Tokenizer


class Located(NamedTuple):
    """The tokens of a text as they are spelled there, the words, and the word that each token belongs to (or None)."""

    tokens: tuple[str, ...]
    words: tuple[str, ...]
    word_of: tuple[int | None, ...]

    @classmethod
    def of_words(cls, words: tuple[str, ...]) -> Located:
        """Tokens that are a word each."""
        return cls(words, words, tuple(range(len(words))))

    def joined(self, marks: Sequence[str], other: Located) -> Located:
        """The tokens of two texts with marks between them, which belong to no word."""
        later = [None if word is None else len(self.words) + word for word in other.word_of]
        tokens = (*self.tokens, *marks, *other.tokens)
        return Located(tokens, (*self.words, *other.words), (*self.word_of, *[None] * len(marks), *later))


def locate(tokenizer: Tokenizer, text: str) -> Located:
    """Each token of a word tokenizer is a word; the words of other tokenizers are those between blanks.

    A token belongs to the word of its last character: subwords have the blank before a word.
    """
    spans = tokenizer.spans(text)
    tokens = tuple(text[start:end] for start, end in spans)
    if tokenizer.kind == "word":
        return Located.of_words(tokens)
    found = [match.span() for match in re.finditer(r"\S+", text)]
    owner = {place: number for number, (start, end) in enumerate(found) for place in range(start, end)}
    words = tuple(text[start:end] for start, end in found)
    return Located(tokens, words, tuple(owner.get(end - 1) for _, end in spans))


def pad_ids(rows: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Rows of ids as tokens (B, T), padded with 0, and lengths (B)."""
    tokens = pad_sequence([torch.tensor(row, dtype=torch.long) for row in rows], batch_first=True)
    return tokens.to(device), torch.tensor([len(row) for row in rows], device=device)


def word_means(states: Tensor, located: Located) -> Tensor:
    """states (T, D) of the tokens -> the mean of each word's tokens (W, D)."""
    sums, counts = states.new_zeros(len(located.words), states.size(1)), states.new_zeros(len(located.words), 1)
    known = [place for place, word in enumerate(located.word_of) if word is not None]
    words = torch.tensor([word for word in located.word_of if word is not None], dtype=torch.long)
    sums.index_add_(0, words, states[known])
    counts.index_add_(0, words, torch.ones(len(known), 1))
    return sums / counts.clamp(min=1)


class WithStates:
    """The part of a task's contract that gives vectors of words, tokens and texts (`Run.embed`)."""

    name: str
    codec: Any

    def tokenizer_of(self, part: str) -> Tokenizer:
        """The tokenizer whose entries have the rows of an embedding, given the name of that part of the network."""
        found: Tokenizer = self.codec.side("")
        return found

    @property
    def leading_tokens(self) -> int:
        """Special tokens that the network reads before the tokens of a text."""
        return 0

    def word_tables(self, model: Any) -> dict[str, WordTable]:
        """The vectors of single words or tokens by the part of the network that has them; none where there are none."""
        return token_tables(model, self.tokenizer_of)

    def locate(self, record: Any) -> Located:
        """The tokens and words of the text whose states `states` returns."""
        if not self.codec.tokenizers:
            raise self._without_states()
        return locate(self.tokenizer_of("encoder"), record.key)

    def states(self, model: Any, records: Sequence[Any]) -> Tensor:
        """records -> the state of the network at each token of their texts (B, T, D), as `locate` names them."""
        raise self._without_states()

    def _without_states(self) -> ConfigError:
        return ConfigError(
            "has no states", where=f'task = "{self.name}"', cure="neural models that read texts have them"
        )

    def sentence_vectors(self, model: Any, records: Sequence[Any]) -> Tensor:
        """records -> one vector for each text (B, D): the mean of its tokens' states; without tokens it is 0."""
        states = self.states(model, records)
        lengths = torch.tensor([len(self.locate(record).tokens) for record in records], device=states.device)
        real = length_mask(lengths, states.size(1))[..., None]
        return (states * real).sum(1) / lengths.clamp(min=1)[:, None]
