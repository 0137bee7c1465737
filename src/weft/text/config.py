"""The `[text]` section: what a token is and how many there may be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal, Self

from pydantic import field_validator

from weft.settings import Count, Settings, Unread, Vocabulary
from weft.text.rules import is_word

MAX_WORDS: Final = 100_000
FEW_CHARACTERS: Final = 20_000
"""Characters of a training text below which most of its words occur only once."""


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
        if unknown is not None and not is_word(unknown):
            raise ValueError(f'"{unknown}" is not one word without blanks')
        return unknown

    def with_unknown(self, word: str) -> Self:
        return self.model_copy(update={"unknown": word})

    def unread(self) -> Iterator[Unread]:
        if self.kind == "imported":
            for name in ("size", "min_count", "lowercase", "unknown"):
                yield Unread(name, 'is not read: kind = "imported" is learned already', "remove it")
        if self.kind != "word":
            yield Unread("punctuation", f'cuts nothing: kind = "{self.kind}"', 'remove it, or use kind = "word"')


class FramedText(TextConfig):
    """How text becomes tokens, and the special tokens around it."""

    frame: Literal["end", "bert", "roberta"] = "end"
    """The special tokens around a text: those of weft, or those that BERT or RoBERTa were trained with."""


def word_defaults(characters: int) -> dict[str, Any]:
    """The `[text]` settings for a vocabulary of words: those that occur twice or more, or all those of a short text.

    `characters` is the size of the training text. Words that occur once become the unknown token, so that a model
    learns what unknown words are like.
    """
    return {"kind": "word", "size": MAX_WORDS, "min_count": 2 if characters >= FEW_CHARACTERS else 1}
