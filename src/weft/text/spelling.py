"""The bytes that each token adds to a decoded text, so that strings can be found in a text while it is written.

A subword or a character always adds the same bytes. A word adds a blank before it, but not at the beginning of a text,
not after an opening bracket and not before a closing one: its bytes depend on whether the text before it is `OPEN`.
Subwords of some imported tokenizers have the blank before them too, except at the beginning of a text.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Final, NamedTuple

from weft.text.tokenizer import Tokenizer
from weft.text.vocabulary import EOS, MASK, PAD, SOS, SPECIALS, UNK

OPEN, SPACED = 0, 1
"""States of a text: no blank follows (it is empty, or ends with an opening bracket), or a blank follows."""

SILENT: Final = frozenset({PAD, SOS, EOS})
CLOSING, OPENING = {"Pe", "Pf"}, {"Ps", "Pi"}
"""Unicode categories of characters before and after which there is no blank."""


class TokenSpelling(NamedTuple):
    """The bytes that each token adds in each state of the text, [state][token], and the state after each token; None
    where a token leaves the state as it is. Subwords and characters have one state."""

    added: tuple[list[bytes], ...]
    after: list[int | None]

    def state(self, tokens: Sequence[int]) -> int:
        """The state of a text of these tokens."""
        return next((found for token in reversed(tokens) if (found := self.after[token]) is not None), OPEN)

    def spell(self, tokens: Sequence[int], before: Sequence[int] = ()) -> bytes:
        """The bytes that the tokens add to a text."""
        state, found = self.state(before), b""
        for token in tokens:
            found += self.added[state][token]
            state = state if (after := self.after[token]) is None else after
        return found


def spelling_of(tokenizer: Tokenizer) -> TokenSpelling:
    """The spelling of all tokens of a tokenizer."""
    if tokenizer.kind == "word":
        return _words(tokenizer)
    if tokenizer.drops_first_blank:
        return _after_blanks(tokenizer)
    added = [
        b"" if index in SILENT else tokenizer.decode([index]).encode() if index < len(SPECIALS) else content
        for index, content in enumerate(tokenizer.contents())
    ]
    return TokenSpelling((added,), [None] * len(added))


def _after_blanks(tokenizer: Tokenizer) -> TokenSpelling:
    """Subwords with the blank before them, which the first one of a text loses."""
    spaced = [b"" if index in SILENT else content for index, content in enumerate(tokenizer.contents())]
    for index in {UNK, MASK} - SILENT:
        spaced[index] = tokenizer.decode([index]).encode()
    after = [None if index in SILENT else SPACED for index in range(len(spaced))]
    return TokenSpelling(([content.removeprefix(b" ") for content in spaced], spaced), after)


def _words(tokenizer: Tokenizer) -> TokenSpelling:
    """Words with the blanks between them, by the rules of `weft.text.pipeline`."""
    glued = tokenizer.config.punctuation == "split"
    bare, spaced = list[bytes](), list[bytes]()
    after = list[int | None]()
    for index in range(len(tokenizer)):
        word = "" if index in SILENT else tokenizer.decode([index])
        closes = glued and bool(word) and (unicodedata.category(word[0]) in CLOSING or word[0] in ".,;:!?…%")
        opens = glued and bool(word) and (unicodedata.category(word[-1]) in OPENING or word[-1] in "¿¡")
        bare.append(word.encode())
        spaced.append(word.encode() if closes or index in SILENT else f" {word}".encode())
        after.append(None if index in SILENT else OPEN if opens else SPACED)
    return TokenSpelling((bare, spaced), after)
