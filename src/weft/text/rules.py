"""What of the `[text]` settings acts on a tokenizer that was learned, and the table of them that an export keeps.

A tokenizer needs no more than these to cut text, so programs that only run a model read them without pydantic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Protocol, Self

from weft.errors import ConfigError, WeftError
from weft.text.vocabulary import SPECIALS, nothing_to_learn

KINDS: Final = ("char", "word", "bpe", "unigram", "imported")
PUNCTUATION: Final = ("split", "keep")
BYTES: Final = 256
"""The entries for bytes in every vocabulary but that of words: with them no text is unknown."""


class TextRules(Protocol):
    """The settings that act on a text; `TextConfig` explains each."""

    @property
    def kind(self) -> str: ...

    @property
    def size(self) -> int: ...

    @property
    def min_count(self) -> int: ...

    @property
    def lowercase(self) -> bool: ...

    @property
    def punctuation(self) -> str: ...

    @property
    def unknown(self) -> str | None: ...

    def with_unknown(self, word: str) -> Self:
        """The same with another word for unknown."""
        ...


@dataclass(frozen=True)
class StoredRules:
    """The rules of an exported tokenizer, checked."""

    kind: str
    size: int
    min_count: int
    lowercase: bool
    punctuation: str
    unknown: str | None
    frame: str = "end"

    @classmethod
    def of_tree(cls, tree: Mapping[str, Any]) -> Self:
        """The rules of a table; a ValueError says what is wrong with it."""
        names = [field.name for field in fields(cls)]
        if unknown := tree.keys() - set(names):
            raise ValueError(f"{min(unknown)!r:.40} is no rule of a tokenizer")
        if missing := set(names[:-1]) - tree.keys():
            raise ValueError(f"a tokenizer lacks {min(missing)}")
        found = cls(**tree)
        right = {
            "kind": found.kind in KINDS,
            "size": type(found.size) is int and found.size > 0,
            "min_count": type(found.min_count) is int and found.min_count > 0,
            "lowercase": isinstance(found.lowercase, bool),
            "punctuation": found.punctuation in PUNCTUATION,
            "unknown": found.unknown is None or is_word(found.unknown),
            "frame": isinstance(found.frame, str),
        }
        for name, fine in right.items():
            if not fine:
                raise ValueError(f"a tokenizer has {name} = {getattr(found, name)!r:.40}")
        return found

    def with_unknown(self, word: str) -> Self:
        return replace(self, unknown=word)


def is_word(value: Any) -> bool:
    """Whether it is one word without blanks."""
    return isinstance(value, str) and value.split() == [value]


def check(config: TextRules) -> None:
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


def no_words(config: TextRules) -> WeftError:
    """The error for a vocabulary of words when no word is left to learn from."""
    if config.min_count == 1:
        return nothing_to_learn()
    return ConfigError(f"{config.min_count} leaves no word", where="text.min_count", cure="lower it")
