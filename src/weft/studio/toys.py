"""Toy tasks for the learning playground: an input, the sign "=", and an answer that follows from the input.

All examples of a toy have the same lengths, so a batch needs no padding. No example that a model is tested on is ever
drawn for training.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple

from weft.errors import ConfigError, did_you_mean

ASK: Final = "="
"""The token after which the model answers."""

END: Final = "."
"""The token that ends an answer whose length varies; after it the answer is filled up with it."""

DIGITS: Final = tuple("0123456789")
LETTERS: Final = tuple("abcdefgh")
NOISE: Final = tuple("xyz")
BLANK: Final = "_"

TEST_EXAMPLES: Final = 64
"""Fixed examples that accuracy is measured on; at most a quarter of all where a toy has few."""


class Example(NamedTuple):
    """An input and its answer, as tokens."""

    input: tuple[str, ...]
    answer: tuple[str, ...]


class Size(NamedTuple):
    """The size of a toy that a page may choose: its bounds, its default, and what it counts."""

    low: int
    high: int
    default: int
    label: str


@dataclass(frozen=True)
class Toy:
    """A toy task: what it asks of a model, how an example of some size is drawn, and how long it takes."""

    name: str
    question: str
    size: Size
    vocabulary: tuple[str, ...]
    draw: Callable[[random.Random, int], Example]
    steps: int
    """Updates in which an LSTM of the default size learns it, in less than a minute on one core."""

    def check_size(self, size: int) -> int:
        """Return the size; raise where the toy has no such size."""
        if not self.size.low <= size <= self.size.high:
            cure = f"from {self.size.low} to {self.size.high}"
            raise ConfigError(f"{size} is not possible", where=f"size of {self.name}", cure=cure)
        return size

    def tokens(self) -> tuple[str, ...]:
        """Return all tokens that occur, each once."""
        return tuple(dict.fromkeys((*self.vocabulary, ASK)))

    def split(self, size: int, seed: int) -> tuple[list[Example], Callable[[], Example]]:
        """Return the fixed examples of tests, and a function that draws one for training, never one of those."""
        draws = random.Random(seed)
        distinct: dict[tuple[str, ...], Example] = {}
        for _ in range(4 * TEST_EXAMPLES):
            found = self.draw(draws, size)
            distinct[found.input] = found
        # Where nearly every draw repeats an input the toy is small, and most of it is needed to learn from.
        most = TEST_EXAMPLES if len(distinct) > 3 * TEST_EXAMPLES else max(1, len(distinct) // 4)
        tests = list(distinct.values())[:most]
        held_out = {test.input for test in tests}

        def train() -> Example:
            while (found := self.draw(draws, size)).input in held_out:
                continue
            return found

        return tests, train


def _copy(draws: random.Random, size: int) -> Example:
    letters = tuple(draws.choices(LETTERS, k=size))
    return Example(letters, letters)


def _reverse(draws: random.Random, size: int) -> Example:
    letters = tuple(draws.choices(LETTERS, k=size))
    return Example(letters, letters[::-1])


def _add(draws: random.Random, size: int) -> Example:
    """Two binary numbers, the lowest digit first, and their sum in the same order."""
    first, second = draws.getrandbits(size), draws.getrandbits(size)
    answer = _binary(first + second, size + 1)
    return Example((*_binary(first, size), "+", *_binary(second, size)), answer)


def _binary(number: int, digits: int) -> tuple[str, ...]:
    return tuple(str(number >> place & 1) for place in range(digits))


def _parity(draws: random.Random, size: int) -> Example:
    """Some bits after blanks. Short ones among them show the rule of one step, which long ones alone hide."""
    bits = draws.choices((0, 1), k=draws.randint(1, size))
    blanks = (BLANK,) * (size - len(bits))
    return Example((*blanks, *map(str, bits)), ("odd" if sum(bits) % 2 else "even",))


def _recall(draws: random.Random, size: int) -> Example:
    first = draws.choice(LETTERS)
    return Example((first, *draws.choices(NOISE, k=size)), (first,))


def _phrase(draws: random.Random, size: int) -> Example:
    return draws.choice(_phrases(size))


NOUNS: Final = ("cat", "apple", "house", "dog", "book", "car", "table", "bird", "flower", "garden", "door", "horse")
ADJECTIVES: Final = ("red", "small", "black", "old", "blue", "big", "white", "green")
DETERMINERS: Final = ("the", "a", "this", "my")


@cache
def _phrases(nouns: int) -> tuple[Example, ...]:
    """Noun phrases of the phrasebook, with so many nouns. In French most adjectives follow the noun, and all agree."""
    from weft.phrasebook.lexicon import ADJECTIVES as ALL_ADJECTIVES
    from weft.phrasebook.lexicon import NOUNS as ALL_NOUNS
    from weft.phrasebook.nounphrase import noun_phrase

    found = [
        noun_phrase(ALL_NOUNS[noun], determiner, ALL_ADJECTIVES[adjective])
        for noun in [name for name in NOUNS if name in ALL_NOUNS][:nouns]
        for adjective in ADJECTIVES
        for determiner in DETERMINERS
    ]
    longest = max(len(phrase.french) for phrase in found) + 1
    return tuple(
        Example(tuple(word.text for word in phrase.english), (*phrase.french, *(END,) * (longest - len(phrase.french))))
        for phrase in found
    )


@cache
def _phrase_words() -> tuple[str, ...]:
    words = [word for phrase in _phrases(len(NOUNS)) for word in (*phrase.input, *phrase.answer)]
    return tuple(dict.fromkeys(words))


def _toys() -> dict[str, Toy]:
    bits = ("0", "1")
    listed = [
        Toy("copy", "Can it repeat a row of letters?", Size(1, 20, 5, "letters"), LETTERS, _copy, 1200),
        Toy("reverse", "Can it say a row of letters backwards?", Size(1, 20, 5, "letters"), LETTERS, _reverse, 1200),
        Toy("add", "Can it add two binary numbers?", Size(1, 8, 5, "binary digits"), (*bits, "+"), _add, 2500),
        Toy(
            "parity",
            "Are there an odd number of ones?",
            Size(2, 30, 6, "bits"),
            (*bits, BLANK, "odd", "even"),
            _parity,
            1000,
        ),
        Toy(
            "recall",
            "Does it remember the first letter after a delay?",
            Size(1, 200, 20, "steps of noise"),
            (*LETTERS, *NOISE),
            _recall,
            800,
        ),
        Toy(
            "phrasebook",
            "Can it translate a noun phrase into French?",
            Size(2, 12, 8, "nouns"),
            _phrase_words(),
            _phrase,
            800,
        ),
    ]
    return {toy.name: toy for toy in listed}


@cache
def toys() -> dict[str, Toy]:
    """Return all toys by their names."""
    return _toys()


def find_toy(name: str) -> Toy:
    """Return the toy of that name; raise for an unknown one."""
    if name not in toys():
        raise ConfigError("is no toy", where=f"{name:.60}", cure=did_you_mean(name[:60], toys()))
    return toys()[name]
