"""Draws the phrasebook of a seed: distinct examples, split so that no word of a test is new.

No sentence of one part occurs in another, and every word form of `valid` and `test`, in either language, occurs in
`train`.
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate, pairwise
from random import Random
from typing import Generic, TypeVar

from weft.phrasebook.clause import AmbiguousError
from weft.phrasebook.descriptions import DESCRIPTIONS
from weft.phrasebook.draw import Draw
from weft.phrasebook.linked import LINKED
from weft.phrasebook.movements import MOVEMENTS
from weft.phrasebook.questions import QUESTIONS
from weft.phrasebook.reviews import Review, review
from weft.phrasebook.sentence import Phrase
from weft.phrasebook.statements import STATEMENTS

Example = TypeVar("Example")

PHRASES, HELD_OUT_PHRASES = 36_000, 1_000
REVIEWS, HELD_OUT_REVIEWS = 9_000, 1_000
MIN_WORDS, MAX_WORDS = 4, 17  # words of a sentence, its final mark counted
_SHARES = STATEMENTS | MOVEMENTS | DESCRIPTIONS | QUESTIONS | LINKED
PATTERNS, _BOUNDS = tuple(_SHARES), tuple(accumulate(_SHARES.values()))


@dataclass(frozen=True, slots=True)
class Parts(Generic[Example]):
    """Examples for training, validation and test."""

    train: tuple[Example, ...]
    valid: tuple[Example, ...]
    test: tuple[Example, ...]


@dataclass(frozen=True, slots=True)
class Phrasebook:
    """Sentence pairs with tags, and reviews with labels."""

    train: tuple[Phrase, ...]
    valid: tuple[Phrase, ...]
    test: tuple[Phrase, ...]
    reviews: Parts[Review]


def make(seed: int = 0) -> Phrasebook:
    """Return the phrasebook of a seed; it is the same on every machine."""
    random = Random(seed)
    phrases = _divide(_draw_phrases(random), _phrase_forms, HELD_OUT_PHRASES, random)
    reviews = _divide(_draw_reviews(random), _review_forms, HELD_OUT_REVIEWS, random)
    return Phrasebook(phrases.train, phrases.valid, phrases.test, reviews)


def draw_phrase(random: Random) -> Phrase:
    """Draw a sentence of a random pattern, again while its French is ambiguous or a noun or name occurs twice."""
    draw = Draw(random)
    while True:
        pattern = PATTERNS[bisect(_BOUNDS, random.random() * _BOUNDS[-1])]
        with suppress(AmbiguousError):
            phrase = pattern(draw)
            if not _echoes(phrase):
                return phrase


def _echoes(phrase: Phrase) -> bool:
    """Whether a name or noun occurs twice: Paul knows that Paul is tired; the baker sees the baker."""
    words = tuple(word.lower() for word in phrase.words)
    named = [word for word, tag in zip(words, phrase.tags, strict=True) if tag == "PROPN"]
    nouns = [pair for pair, tag in zip(pairwise(words), phrase.tags[1:], strict=True) if tag == "NOUN"]
    return len(set(named)) < len(named) or len(set(nouns)) < len(nouns)


def _draw_phrases(random: Random) -> list[Phrase]:
    found: dict[str, Phrase] = {}
    while len(found) < PHRASES:
        phrase = draw_phrase(random)
        if MIN_WORDS <= len(phrase.words) <= MAX_WORDS:
            known = found.setdefault(phrase.english, phrase)
            assert known.french == phrase.french, f"{known} against {phrase.french}"
    return list(found.values())


def _draw_reviews(random: Random) -> list[Review]:
    found: dict[str, Review] = {}
    while len(found) < REVIEWS:
        drawn = review(random)
        found.setdefault(drawn.text, drawn)
    return list(found.values())


def _phrase_forms(phrase: Phrase) -> set[str]:
    # marked as French: table and six are forms of both languages, and each must occur in its own
    return {*phrase.english.split(), *phrase.words, *(f"fr {form}" for form in phrase.french.split())}


def _review_forms(drawn: Review) -> set[str]:
    return set(drawn.text.split())


def _divide(
    examples: list[Example], forms: Callable[[Example], set[str]], held_out: int, random: Random
) -> Parts[Example]:
    """Hold out examples whose forms all occur in the rest too."""
    drawn = sorted(((example, forms(example)) for example in examples), key=lambda _: random.random())
    left = Counter(form for _, own in drawn for form in own)
    train: list[Example] = []
    aside: list[Example] = []
    for example, own in drawn:
        if len(aside) < 2 * held_out and all(left[form] > 1 for form in own):
            left.subtract(own)
            aside.append(example)
        else:
            train.append(example)
    return Parts(tuple(train), tuple(aside[:held_out]), tuple(aside[held_out:]))
