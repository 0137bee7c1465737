"""Characters as a bag of n-grams reads them: a number and a kind for each, from texts or from token ids."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.text import SPECIALS, Tokenizer

BETWEEN, INSIDE, ALONE = 0, 1, 2
"""Kinds of characters: between words, inside a word, or a word of its own."""

FIRST_BYTE_CODE: Final = 0x110000
"""The code of byte 0 where a character is spelled in bytes; the codes of characters are smaller."""

_NO_BLANKS: Final = (
    (0x0E00, 0x0EFF),
    (0x1000, 0x109F),
    (0x1780, 0x17FF),
    (0x3040, 0x30FF),
    (0x3400, 0x9FFF),
    (0x20000, 0x3FFFF),
)
"""Ranges of letters of scripts without blanks between words; each letter counts as a word."""


class Characters(NamedTuple):
    """Texts one after another: the characters of text i begin at `starts[i]`."""

    codes: NDArray[np.int32]
    kinds: NDArray[np.uint8]
    starts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts) - 1


def read_characters(texts: Sequence[str]) -> Characters:
    """The characters of texts in lower case."""
    lower = [text.lower() for text in texts]
    codes = np.frombuffer("".join(lower).encode("utf-32-le", errors="surrogatepass"), dtype=np.int32)
    table = np.zeros(int(codes.max(initial=0)) + 1, dtype=np.uint8)
    for code in np.flatnonzero(np.bincount(codes)):
        table[code] = kind_of(chr(code))
    return Characters(codes, table[codes], np.cumsum([0, *map(len, lower)], dtype=np.int64))


def kind_of(character: str) -> int:
    """The kind of a character."""
    if any(low <= ord(character) <= high for low, high in _NO_BLANKS):
        return ALONE
    category = unicodedata.category(character)[0]
    return INSIDE if category in "LNM" else BETWEEN if category in "ZC" or character == "'" else ALONE


class Alphabet:
    """The code and the kind of each token of a vocabulary of characters. Special tokens stand between words."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.codes = np.zeros(len(tokenizer), dtype=np.int32)
        self.kinds = np.full(len(tokenizer), BETWEEN, dtype=np.uint8)
        for number in range(len(SPECIALS), len(tokenizer)):
            entry = tokenizer.token(number)
            if len(entry) == 1:
                self.codes[number], self.kinds[number] = ord(entry), kind_of(entry)
            else:  # a byte of a character that is not in the vocabulary, such as <0xC3>
                self.codes[number], self.kinds[number] = FIRST_BYTE_CODE + int(entry[3:5], 16), INSIDE

    def read(self, tokens: NDArray[np.int32] | NDArray[np.int64], lengths: NDArray[np.int64]) -> Characters:
        """The characters of token ids of texts, one after another, with their lengths."""
        return Characters(self.codes[tokens], self.kinds[tokens], np.concatenate([[0], np.cumsum(lengths)]))
