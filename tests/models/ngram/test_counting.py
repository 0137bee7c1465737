"""All n-grams of all texts are counted, however the texts are cut, chunked, and spilled to disk."""

from __future__ import annotations

import random
from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.models.ngram.conftest import examples_of

from weft.data import Examples, Ragged
from weft.data.pieces import Pieces
from weft.models.ngram.counting import NgramCounter
from weft.models.ngram.runs import Shelf, SortedRun, merge
from weft.text import EOS, SOS

VOCABULARY = 9


def draw(seed: int, texts: int = 40) -> list[list[int]]:
    chance = random.Random(seed)
    return [[SOS, *chance.choices(range(5, VOCABULARY), k=chance.randrange(12)), EOS] for _ in range(texts)]


def count(counter: NgramCounter, order: int) -> list[dict[tuple[int, ...], tuple[int, tuple[int, ...]]]]:
    """For each order the n-grams, with their counts and their suffixes, spelled out by their words."""
    found, below = [], [()]
    for n in range(1, order + 1):
        level = counter.next_level(last=n == order)
        assert (np.diff(level.keys) > 0).all()
        contexts, words = np.divmod(level.keys, VOCABULARY)
        grams = [(*below[context], word) for context, word in zip(contexts.tolist(), words.tolist(), strict=True)]
        suffixes = [below[suffix] for suffix in level.suffixes.tolist()]
        rows = zip(grams, level.counts.tolist(), suffixes, strict=True)
        found.append({gram: (count, suffix) for gram, count, suffix in rows if count})
        below = grams
    return found


def expected(texts: list[list[int]], order: int) -> list[dict[tuple[int, ...], tuple[int, tuple[int, ...]]]]:
    counts = defaultdict(Counter)
    for text in texts:
        for n in range(1, order + 1):
            counts[n].update(tuple(text[i : i + n]) for i in range(len(text) - n + 1))
    return [{gram: (times, gram[1:]) for gram, times in counts[n].items()} for n in range(1, order + 1)]


@pytest.mark.covers("M1")
@pytest.mark.parametrize("order", [1, 2, 3, 5, 7])
@pytest.mark.parametrize("chunk", [1, 30, 10_000])
def test_every_ngram_inside_a_text_is_counted(order, chunk):
    texts = draw(order)
    assert count(NgramCounter(examples_of(texts), VOCABULARY, chunk=chunk), order) == expected(texts, order)


def test_what_does_not_fit_into_memory_is_counted_on_disk():
    texts = draw(0, texts=200)
    counter = NgramCounter(examples_of(texts), VOCABULARY, chunk=50, memory=100)
    assert count(counter, 4) == expected(texts, 4)
    assert counter.shelf.files > 0


@given(st.lists(st.lists(st.integers(0, 40), max_size=20), min_size=1, max_size=5))
def test_merging_on_disk_gives_what_merging_in_memory_gives(rows):
    counts = [Counter(row) for row in rows]
    runs = [
        SortedRun(
            *(
                np.array(column, dtype=np.int64)
                for column in ([*sorted(one)], [one[k] for k in sorted(one)], sorted(one))
            )
        )
        for one in counts
    ]
    merged = merge(runs, Shelf(memory=7), "merged")
    total = sum(counts, Counter())
    assert merged.keys.tolist() == merged.suffixes.tolist() == sorted(total)
    assert merged.counts.tolist() == [total[key] for key in sorted(total)]


def test_a_text_that_was_split_into_rows_is_counted_as_one():
    texts = draw(1)
    rows = []
    for text in texts:  # pieces of five predictions, which begin with the last token of the piece before
        rows += [text[begin : begin + 6] for begin in range(0, len(text) - 1, 5)]
    assert len(rows) > len(texts)
    assert count(NgramCounter(examples_of(rows), VOCABULARY, chunk=40), 4) == expected(texts, 4)


def test_running_text_is_counted_before_it_is_cut_into_pieces():
    texts = draw(2)
    pieces = Pieces(Ragged.from_lists(texts), 3)
    examples = Examples({}, pieces.lengths, pieces=pieces)
    assert count(NgramCounter(examples, VOCABULARY), 3) == expected(texts, 3)
