"""The beginning of a written text, as the user typed it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from weft.text.tokenizer import Tokenizer


class Beginning(NamedTuple):
    """The tokens that a text begins with, their text, and the text that is shown in its place.

    A tokenizer may write other text than it has read: <unk> for a word that it does not know, or lower case.
    """

    tokens: Sequence[int]
    decoded: str
    shown: str

    @classmethod
    def of(cls, tokenizer: Tokenizer, tokens: Sequence[int], typed: str | None) -> Beginning:
        decoded = tokenizer.decode(tokens)
        # The text that follows begins with its own blank.
        return cls(tokens, decoded, decoded if typed in (None, decoded) else str(typed).rstrip())

    def show(self, text: str) -> str:
        """The text of all tokens as it is shown."""
        return self.shown + text[len(self.decoded) :] if text.startswith(self.decoded) else text
