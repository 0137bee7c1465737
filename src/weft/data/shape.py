"""What texts look like: how long they are, and of how many different words and characters they are made.

Sentences, single words and sequences from a small set of symbols need different tokens and different metrics, and this
is what tells them apart. Memory does not grow with the number of texts.
"""

from __future__ import annotations

from itertools import accumulate
from typing import NamedTuple

MAX_LENGTH = 1000
"""Lengths above this count as this long."""

MAX_DISTINCT = 1000
"""Different words and characters are counted up to this number."""

SHORT_CHARACTERS, SHORT_WORDS = 30, 3
"""Median lengths up to which texts are single words or names rather than sentences."""

FEW_WORDS, TIMES_SEEN = 200, 10
"""A closed set has fewer different words than this, each seen so many times in the mean, so that no new ones come."""

LARGE_ALPHABET = 300
"""Characters from which on a script writes words or syllables, such as Chinese, and puts no blanks between words."""


class Shape(NamedTuple):
    """Median characters and median blank-separated words of some texts; their words, different words and different
    characters in all."""

    characters: int
    words: int
    total: int
    distinct: int
    alphabet: int

    @property
    def short(self) -> bool:
        """Whether a text is a word or a few, not a sentence."""
        return self.characters <= SHORT_CHARACTERS and self.words <= SHORT_WORDS

    @property
    def closed(self) -> bool:
        """Whether a text is a sequence of items from a small set, such as phones or actions."""
        return self.words > 1 and self.distinct < FEW_WORDS and self.total >= TIMES_SEEN * self.distinct

    @property
    def blanks(self) -> bool:
        """Whether blanks part words in this script."""
        return self.alphabet < LARGE_ALPHABET


class ShapeCount:
    """Counts texts one by one."""

    def __init__(self) -> None:
        self._characters, self._words = [0] * (MAX_LENGTH + 1), [0] * (MAX_LENGTH + 1)
        self._total = 0
        self._distinct: set[str] = set()
        self._alphabet: set[str] = set()

    def add(self, text: str) -> None:
        words = text.split()
        self._characters[min(len(text), MAX_LENGTH)] += 1
        self._words[min(len(words), MAX_LENGTH)] += 1
        self._total += len(words)
        if len(self._distinct) < MAX_DISTINCT:
            self._distinct.update(words)
        if len(self._alphabet) < MAX_DISTINCT:
            self._alphabet.update(text)

    def shape(self) -> Shape:
        distinct, alphabet = (min(len(found), MAX_DISTINCT) for found in (self._distinct, self._alphabet))
        return Shape(_median(self._characters), _median(self._words), self._total, distinct, alphabet)


def _median(counts: list[int]) -> int:
    """The lower median of numbers of which there are `counts[n]` times n; 0 of none."""
    half = sum(counts) / 2
    return next((number for number, below in enumerate(accumulate(counts)) if below >= half), 0)
