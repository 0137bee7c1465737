"""The `[text]` section: what a token is and how many there may be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

from pydantic import field_validator

from weft.errors import ConfigError, WeftError
from weft.settings import Count, Settings, Unread, Vocabulary
from weft.text.vocabulary import SPECIALS, nothing_to_learn

MAX_WORDS: Final = 100_000
FEW_CHARACTERS: Final = 20_000
"""Characters of a training text below which most of its words occur only once."""

BYTES = 256
"""The entries for bytes in every vocabulary but that of words: with them no text is unknown."""


class TextConfig(Settings):
    """How text becomes tokens."""

    kind: Literal["char", "word", "bpe", "unigram", "imported"] = "bpe"
    """Characters, words, or subwords learned from the training text; imported is the tokenizer of an imported run."""

    size: Vocabulary = 8000
    """The maximum number of entries of the vocabulary, special tokens and bytes included."""

    min_count: Count = 1
    """Characters, words and merges seen fewer times are left out; unigram pieces come from words seen this often."""

    lowercase: bool = False
    """Turn all text to lower case first."""

    punctuation: Literal["split", "keep"] = "split"
    """Words only: make each punctuation mark a token, or cut at blanks alone."""

    unknown: str | None = None
    """A word of the files that means unknown, such as <unk>; between blanks it becomes the unknown token."""

    @field_validator("unknown")
    @classmethod
    def _is_a_word(cls, unknown: str | None) -> str | None:
        if unknown is not None and unknown.split() != [unknown]:
            raise ValueError(f'"{unknown}" is not one word without blanks')
        return unknown

    def unread(self) -> Iterator[Unread]:
        if self.kind == "imported":
            for name in ("size", "min_count", "lowercase", "unknown"):
                yield Unread(name, 'is not read: kind = "imported" is learned already', "remove it")
        if self.kind != "word":
            yield Unread("punctuation", f'cuts nothing: kind = "{self.kind}"', 'remove it, or use kind = "word"')


def word_defaults(characters: int) -> dict[str, Any]:
    """The `[text]` settings for a vocabulary of words: those that occur twice or more, or all those of a short text.

    `characters` is the size of the training text. Words that occur once become the unknown token, so that a model
    learns what unknown words are like.
    """
    return {"kind": "word", "size": MAX_WORDS, "min_count": 2 if characters >= FEW_CHARACTERS else 1}


def check(config: TextConfig) -> None:
    """Raise `ConfigError` if no vocabulary can fulfil the settings."""
    if config.kind == "imported":
        cure = 'start from an imported run: train.start = "RUN"'
        raise ConfigError("is not learned from texts", where='text.kind = "imported"', cure=cure)
    smallest = len(SPECIALS) + (1 if config.kind == "word" else BYTES)
    if config.size < smallest:
        held = "a word" if config.kind == "word" else f"the {BYTES} bytes"
        raise ConfigError(
            f"{config.size} leaves no room for the {len(SPECIALS)} special tokens and {held} (kind = {config.kind!r})",
            where="text.size",
            cure=f"use at least {smallest}",
        )


def no_words(config: TextConfig) -> WeftError:
    """The error for a vocabulary of words when no word is left to learn from."""
    if config.min_count == 1:
        return nothing_to_learn()
    return ConfigError(f"{config.min_count} leaves no word", where="text.min_count", cure="lower it")
