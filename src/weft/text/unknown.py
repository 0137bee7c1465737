"""Words of a file that mean "unknown": the setting `text.unknown`, and the words that look like one.

Corpora such as WikiText-2 and the Penn Treebank write <unk> where a rare word stood.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from weft.text.config import TextConfig

LOOKS_UNKNOWN: Final = re.compile(r"<unk>|\[unk\]|_+unk_+|@+unk(?:nown)?@+|<unknown>|\[unknown\]|<oov>", re.IGNORECASE)
CAPITALS: Final = frozenset({"UNK", "OOV"})
"""Spellings that mean unknown only in capitals."""

FEWEST, SHARE = 3, 1e-4
"""How often, and as which share of all words, such a spelling stands in a text that uses it for unknown words."""

MAX_CHARACTERS: Final = 2_000_000
"""Characters of a file among which such words are counted."""


def unknown_word(config: TextConfig) -> re.Pattern[str] | None:
    """Matches the word that means unknown where it stands between blanks; None where no word does."""
    if config.unknown is None:
        return None
    return re.compile(rf"(?<!\S){re.escape(config.unknown)}(?!\S)", re.IGNORECASE if config.lowercase else 0)


class UnknownWords:
    """Counts the words that look as if they meant unknown, in the first texts of a file."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.words = 0
        self.left = MAX_CHARACTERS

    def add(self, text: str) -> None:
        if self.left > 0:
            words = text[: self.left].split()
            self.left -= len(text)
            self.words += len(words)
            self.counts.update(word for word in words if word in CAPITALS or LOOKS_UNKNOWN.fullmatch(word))

    def most_frequent(self) -> tuple[str, int] | None:
        """The most frequent one and how often it stands there, where that is often enough to mean something."""
        found = self.counts.most_common(1)
        return found[0] if found and found[0][1] >= max(FEWEST, SHARE * self.words) else None
