"""What texts look like: medians and counts by hand, and which kinds of text they tell apart."""

from __future__ import annotations

import random

from weft.data import Shape, ShapeCount
from weft.data.shape import MAX_DISTINCT, MAX_LENGTH


def shape(texts):
    count = ShapeCount()
    for text in texts:
        count.add(text)
    return count.shape()


def test_medians_and_counts_by_hand():
    assert shape(["a b", "a bb c", "abcdef"]) == Shape(characters=6, words=2, total=6, distinct=5, alphabet=7)
    assert shape([]) == Shape(0, 0, 0, 0, 0)


def test_memory_is_bounded():
    found = shape([" ".join(chr(0x4E00 + n) for n in range(start, start + 3000)) for start in range(0, 9000, 3000)])
    assert found == Shape(MAX_LENGTH, MAX_LENGTH, 9000, MAX_DISTINCT, MAX_DISTINCT)


def made_up(kinds, lengths, *, lines=400, letters=6, seed=0):
    """Lines of words from so many different ones."""
    draw = random.Random(seed)
    words = ["".join(draw.choice("abcdefghij") for _ in range(draw.randint(1, letters))) for _ in range(kinds)]
    return [" ".join(draw.choice(words) for _ in range(draw.randint(*lengths))) for _ in range(lines)]


def test_sentences_words_and_symbols_are_told_apart():
    sentences, single, symbols = (
        shape(made_up(900, (4, 12))),
        shape(made_up(900, (1, 2))),
        shape(made_up(40, (4, 12), letters=1)),
    )
    assert [(found.short, found.closed) for found in (sentences, single, symbols)] == [
        (False, False),
        (True, False),
        (False, True),
    ]


def test_a_few_sentences_are_no_closed_set_of_words():
    """Twenty of them have fewer words than two hundred, but most of these occur once."""
    assert not shape(made_up(900, (4, 12), lines=20)).closed


def test_single_items_are_no_sequence():
    assert not shape(made_up(5, (1, 1))).closed
