"""The special tokens, and which entries a vocabulary keeps.

Ids 0 to 4 belong to the special tokens in every vocabulary, so padding is always 0 and nothing has to look them up. An
id is special by its number alone: a text in which "<eos>" is written holds a word like any other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from weft.errors import DataError

PAD, UNK, SOS, EOS, MASK = 0, 1, 2, 3, 4
SPECIALS = ("<pad>", "<unk>", "<sos>", "<eos>", "<mask>")

LIKE_SPECIAL: Final = rf"\\*(?:{'|'.join(SPECIALS)})"
"""Words that are written like a special token, as a pattern of Python and of the `tokenizers` library: such a word has
an entry with one more backslash before it, so that no entry of a word is that of a special token."""

_LIKE_SPECIAL = re.compile(LIKE_SPECIAL)


def entry_of(word: str) -> str:
    """The vocabulary entry of a word: the word itself, or \\<eos> for the word <eos>."""
    return f"\\{word}" if _LIKE_SPECIAL.fullmatch(word) else word


def rank(counts: Mapping[str, int], *, room: int, min_count: int) -> list[str]:
    """The `room` most frequent entries seen at least `min_count` times; equal counts stand in code point order."""
    kept = (entry for entry, count in counts.items() if count >= min_count)
    return sorted(kept, key=lambda entry: (-counts[entry], entry))[:room]


def number(entries: Iterable[str]) -> dict[str, int]:
    """entry -> id, the special tokens first."""
    return {entry: index for index, entry in enumerate((*SPECIALS, *entries))}


def nothing_to_learn() -> DataError:
    return DataError("there is no text to learn a vocabulary from", cure="check that data.train is not empty")
