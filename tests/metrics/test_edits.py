"""Edit distance: the quick way equals the table that everybody knows, and error rates are sums over sums."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.metrics import TranslationTally, count_edits, edit_distance


def by_table(one, other):
    """The distance by the whole table, row after row."""
    row = list(range(len(other) + 1))
    for number, left in enumerate(one, 1):
        before, row[0] = row[0], number
        for place, right in enumerate(other, 1):
            before, row[place] = row[place], min(row[place] + 1, row[place - 1] + 1, before + (left != right))
    return row[-1]


@pytest.mark.covers("E5")
@pytest.mark.parametrize(
    ("one", "other", "edits"),
    [("kitten", "sitting", 3), ("", "abc", 3), ("abc", "", 3), ("", "", 0), ("flaw", "lawn", 2), ("abc", "abc", 0)],
)
def test_distances_by_hand(one, other, edits):
    assert edit_distance(one, other) == edits


@given(st.text("abc", max_size=12), st.text("abcd", max_size=12))
def test_the_quick_way_equals_the_table(one, other):
    assert edit_distance(one, other) == by_table(one, other)


def test_long_sequences_of_words():
    draw = random.Random(0)
    one, other = ([draw.choice(["a", "bb", "c"]) for _ in range(size)] for size in (150, 211))
    assert edit_distance(one, other) == by_table(one, other)


@pytest.mark.covers("E5")
def test_error_rates_by_hand():
    tally = TranslationTally()
    tally.add("a b c", "a x c d")  # a replacement and an insertion in words; "b" for "x", and " d", in characters
    tally.add("the", "the")
    assert tally.wer == pytest.approx(2 / 5)
    assert tally.cer == pytest.approx(3 / 10)
    assert count_edits("wer", "", "two words") == (2, 2)
    assert (TranslationTally().wer, TranslationTally().cer) == (0, 0)
