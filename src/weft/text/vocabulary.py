"""The special tokens, and the choice of the entries of a vocabulary.

Ids 0 to 4 belong to the special tokens in every vocabulary, so padding is always 0. An id is special by its number
alone: "<eos>" written in a text is a word like any other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from weft.errors import DataError

PAD, UNK, SOS, EOS, MASK = 0, 1, 2, 3, 4
SPECIALS = ("<pad>", "<unk>", "<sos>", "<eos>", "<mask>")

LIKE_SPECIAL: Final = rf"\\*(?:{'|'.join(SPECIALS)})"
"""The pattern of words that are spelled like a special token, for Python and the `tokenizers` library. The entry of
such a word has one more backslash before it, so that it differs from the entry of the special token."""

_LIKE_SPECIAL = re.compile(LIKE_SPECIAL)


def entry_of(word: str) -> str:
    """The vocabulary entry of a word: the word itself, or \\<eos> for the word <eos>."""
    return f"\\{word}" if _LIKE_SPECIAL.fullmatch(word) else word


def rank(counts: Mapping[str, int], *, capacity: int, min_count: int) -> list[str]:
    """The `capacity` most frequent entries that occur at least `min_count` times; equal counts in code point order."""
    kept = (entry for entry, count in counts.items() if count >= min_count)
    return sorted(kept, key=lambda entry: (-counts[entry], entry))[:capacity]


def number(entries: Iterable[str]) -> dict[str, int]:
    """entry -> id, the special tokens first."""
    return {entry: index for index, entry in enumerate((*SPECIALS, *entries))}


def nothing_to_learn() -> DataError:
    return DataError("there is no text to learn a vocabulary from", cure="check that data.train is not empty")
