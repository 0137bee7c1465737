"""The shape of texts: their median lengths, and how many different words and characters they have.

Sentences, single words and sequences of a few symbols need different tokens and metrics; the shape distinguishes them.
Memory does not grow with the number of texts.
"""

from __future__ import annotations

from itertools import accumulate
from typing import NamedTuple

MAX_LENGTH = 1000
"""Longer texts count as this long, in characters or words."""

MAX_DISTINCT = 1000
"""Different words and characters are counted up to this number."""

SHORT_CHARACTERS, SHORT_WORDS = 30, 3
"""Median lengths up to which texts are single words or names rather than sentences."""

FEW_WORDS, MIN_MEAN_COUNT = 200, 10
"""A closed set has fewer different words than this, with at least this mean count, so that new ones are unlikely."""

LARGE_ALPHABET = 300
"""Scripts with at least this many characters write words or syllables, such as Chinese, and have no blanks."""


class Shape(NamedTuple):
    """Median characters and median blank-separated words of some texts; the number of all words, of different words and
    of different characters."""

    characters: int
    words: int
    total: int
    distinct: int
    alphabet: int

    @property
    def short(self) -> bool:
        """Whether texts are a few words at most, not sentences."""
        return self.characters <= SHORT_CHARACTERS and self.words <= SHORT_WORDS

    @property
    def closed(self) -> bool:
        """Whether texts are sequences of items from a small set, such as phones or actions."""
        return self.words > 1 and self.distinct < FEW_WORDS and self.total >= MIN_MEAN_COUNT * self.distinct

    @property
    def blanks(self) -> bool:
        """Whether this script separates words by blanks."""
        return self.alphabet < LARGE_ALPHABET


class ShapeCount:
    """Computes the shape of texts, one text at a time."""

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
    """The lower median of numbers in which n occurs `counts[n]` times; 0 of none."""
    half = sum(counts) / 2
    return next((number for number, below in enumerate(accumulate(counts)) if below >= half), 0)
