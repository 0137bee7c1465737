"""Words of a file that mean "unknown": the setting `text.unknown`, and the words that look like one.

Corpora such as WikiText-2 and the Penn Treebank write <unk> where a rare word stood.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

from weft.text.config import TextConfig

LOOKS_UNKNOWN: Final = re.compile(r"<unk>|\[unk\]|_+unk_+|@+unk(?:nown)?@+|<unknown>|\[unknown\]|<oov>", re.IGNORECASE)
CAPITALS: Final = frozenset({"UNK", "OOV"})
"""Spellings that mean unknown only in capitals."""

FEWEST, SHARE = 3, 1e-4
"""How often, and as which share of all words, such a spelling stands in a text that uses it for unknown words."""


def unknown_word(config: TextConfig) -> re.Pattern[str] | None:
    """Matches the word that means unknown where it stands between blanks; None where no word does."""
    if config.unknown is None:
        return None
    return re.compile(rf"(?<!\S){re.escape(config.unknown)}(?!\S)", re.IGNORECASE if config.lowercase else 0)


def find_unknown(texts: Iterable[str]) -> tuple[str, int] | None:
    """The most frequent word of the texts that looks as if it meant unknown, and how often it stands there."""
    counts: Counter[str] = Counter()
    total = 0
    for text in texts:
        words = text.split()
        total += len(words)
        counts.update(word for word in words if word in CAPITALS or LOOKS_UNKNOWN.fullmatch(word))
    found = counts.most_common(1)
    return found[0] if found and found[0][1] >= max(FEWEST, SHARE * total) else None
