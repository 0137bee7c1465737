"""Words of a file that mean "unknown": the setting `text.unknown`, and the words that look like one.

Corpora such as WikiText-2 and the Penn Treebank write <unk> in place of rare words.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from weft.text.rules import TextRules

LOOKS_UNKNOWN: Final = re.compile(r"<unk>|\[unk\]|_+unk_+|@+unk(?:nown)?@+|<unknown>|\[unknown\]|<oov>", re.IGNORECASE)
CAPITALS: Final = frozenset({"UNK", "OOV"})
"""Spellings that mean unknown only in capitals."""

MIN_COUNT, MIN_SHARE = 3, 1e-4
"""The count, and the share of all words, from which on such a spelling is taken to mean unknown."""

MAX_CHARACTERS: Final = 2_000_000
"""Characters of a file among which such words are counted."""


def unknown_word(config: TextRules) -> re.Pattern[str] | None:
    """The pattern of the word that means unknown, between blanks; None if `text.unknown` is not set."""
    if config.unknown is None:
        return None
    return re.compile(rf"(?<!\S){re.escape(config.unknown)}(?!\S)", re.IGNORECASE if config.lowercase else 0)


class UnknownWords:
    """Counts the words that seem to mean unknown, in the first texts of a file."""

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
        """The most frequent of them and its count; None if the count is below `MIN_COUNT` or `MIN_SHARE`."""
        found = self.counts.most_common(1)
        return found[0] if found and found[0][1] >= max(MIN_COUNT, MIN_SHARE * self.words) else None
