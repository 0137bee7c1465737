"""Streamed text: pieces of whole characters, each final, from tokens that may be parts of characters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from weft.text.beginning import Beginning
from weft.text.pipeline import byte_tokens
from weft.text.tokenizer import Tokenizer
from weft.text.vocabulary import EOS, PAD, SOS, UNK

BROKEN: Final = "\N{REPLACEMENT CHARACTER}"
"""The character that stands for bytes that are no character, or not yet a whole one."""


class TextPieces:
    """Turns tokens into text piece by piece; a piece that was returned never changes."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer, self._tokens, self._given = tokenizer, list[int](), ""
        # Consecutive bytes are decoded together: one bad byte spoils the good ones before it. Special tokens do not
        # interrupt them.
        self._bytes = {PAD, SOS, EOS, *map(tokenizer.id, byte_tokens())} - {UNK} if tokenizer.kind == "char" else set()

    def add(self, tokens: Sequence[int]) -> str:
        """The text that is certain now and was not before; it may be empty."""
        self._tokens += tokens
        end = len(self._tokens)
        while end and self._tokens[end - 1] in self._bytes:
            end -= 1
        return self._give(self._tokenizer.decode(self._tokens[:end]).rstrip(BROKEN))

    def finish(self) -> str:
        """The rest of the text."""
        return self._give(self._tokenizer.decode(self._tokens))

    def begin(self, beginning: Beginning) -> str:
        """The beginning of the text as it is shown."""
        if beginning.shown == beginning.decoded:
            return self.add(beginning.tokens)
        self._tokens += beginning.tokens
        self._given = beginning.decoded
        return beginning.shown

    def _give(self, text: str) -> str:
        new = text[len(self._given) :]
        self._given += new
        return new
