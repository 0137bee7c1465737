"""A first line that names columns is known by its words and by the rows below; an example is not taken for one."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.data.headers import guess_columns, label_comes_first, looks_like_header

Rows = list[tuple[str, ...]]

SYLLABLES = ["ka", "lo", "mi", "ren", "tas", "u", "vel", "dor", "pi", "sha", "it", "gru"]


def word(draw: random.Random) -> str:
    return "".join(draw.choice(SYLLABLES) for _ in range(draw.randint(1, 4)))


def sentence(draw: random.Random, fewest: int = 1, most: int = 15, end: str = "") -> str:
    return " ".join(word(draw) for _ in range(draw.randint(fewest, most))) + end


def reviews(draw: random.Random, rows: int) -> Rows:
    labels = [word(draw) for _ in range(draw.choice([2, 3, 20]))]
    return [(sentence(draw), draw.choice(labels)) for _ in range(rows)]


def stars(draw: random.Random, rows: int) -> Rows:
    return [(sentence(draw, end=draw.choice(["", ".", "!"])), str(draw.randint(0, 4))) for _ in range(rows)]


def names(draw: random.Random, rows: int) -> Rows:
    return [(word(draw).title(), draw.choice(["English", "French", "Dutch"])) for _ in range(rows)]


def pairs(draw: random.Random, rows: int) -> Rows:
    lengths = [draw.randint(1, 12) for _ in range(rows)]
    return [(sentence(draw, size, size), sentence(draw, size, size + 1)) for size in lengths]


def pairs_by_length(draw: random.Random, rows: int) -> Rows:
    return sorted(pairs(draw, rows), key=lambda row: len(row[0]))


def spellings(draw: random.Random, rows: int) -> Rows:
    return [(spelled, " ".join(spelled)) for spelled in (word(draw) for _ in range(rows))]


def dictionary(draw: random.Random, rows: int) -> Rows:
    """Words that headers have are words of the language, too."""
    some = ["text", "sentence", "word", "review", *(word(draw) for _ in range(rows))]
    return [(one, word(draw)) for one in draw.sample(some, rows)]


@pytest.mark.parametrize("make", [reviews, stars, names, pairs, pairs_by_length, spellings, dictionary])
def test_examples_are_hardly_ever_taken_for_a_header(make: Callable[[random.Random, int], Rows]) -> None:
    taken = []
    for seed in range(300):
        draw = random.Random(seed)
        first, *others = make(draw, draw.choice([2, 3, 5, 10, 50, 200]))
        if looks_like_header(first, others):
            taken.append((first, len(others)))
    assert len(taken) <= 1, taken


@pytest.mark.parametrize("rows", [1, 3, 20, 200])
@pytest.mark.parametrize(
    ("header", "make"),
    [
        (("review", "sentiment"), reviews),
        (("Tweet", "Class"), reviews),
        (("text_raw", "gold"), stars),
        (("", "review", "stars"), lambda draw, rows: [(str(n), *row) for n, row in enumerate(stars(draw, rows))]),
        (("surname", "language"), names),
        (("english", "french"), pairs),
        (("en", "fr"), pairs_by_length),
        (("word", "phones"), spellings),
    ],
    ids=str,
)
def test_names_that_headers_have(
    header: tuple[str, ...], make: Callable[[random.Random, int], Rows], rows: int
) -> None:
    assert looks_like_header(header, make(random.Random(1), rows))


def test_names_nobody_has_heard_of() -> None:
    draw = random.Random(0)
    rows = [(sentence(draw, 6, 15), draw.choice(["ja", "nein"])) for _ in range(100)]
    assert looks_like_header(("Beitrag", "Klasse"), rows), "a label of its own above a text shorter than any other"
    assert not looks_like_header(("Beitrag", "ja"), rows), "a label like the others"
    assert not looks_like_header(("Beitrag", "Klasse"), rows[:3]), "three rows prove nothing"
    assert not looks_like_header((sentence(draw, 6, 15), "Klasse"), rows), "a text like the others"


cells = st.text(st.characters(codec="utf-8", exclude_characters="\n\t"), max_size=30)


@given(st.lists(st.tuples(cells, cells), min_size=1, max_size=12), st.integers(0))
def test_a_value_that_comes_again_is_no_name(rows: list[tuple[str, str]], place: int) -> None:
    text, label = "review", rows[place % len(rows)][1].strip()
    assert not looks_like_header((text, label), rows)


@given(st.lists(st.tuples(cells, cells), max_size=30), st.sampled_from(["Go.", "Really?", "5", "-1.5", "", "a " * 30]))
def test_sentences_and_numbers_are_no_names(rows: list[tuple[str, str]], cell: str) -> None:
    assert not looks_like_header((cell, "label"), [(text, f"x{label}") for text, label in rows])


def test_labels_that_come_first() -> None:
    rows = reviews(random.Random(2), 40)
    assert label_comes_first([(label, text) for text, label in rows])
    assert not label_comes_first(rows)
    assert not label_comes_first([("yes", "no"), ("no", "yes"), ("yes", "no"), ("no", "yes")])


LONG = ["a film that goes on", "a play without any end", "another one like it"]


@pytest.mark.parametrize(
    ("names", "rows", "settings", "expected"),
    [
        (["review", "sentiment"], [(LONG[0], "pos")], ("text", "label"), (0, 1)),
        (["Sentiment", "Review"], [("pos", LONG[0])], ("text", "label"), (1, 0)),
        (
            None,
            [("1", "a", LONG[0]), ("2", "b", LONG[1]), ("3", "a", LONG[2]), ("4", "b", "x")],
            ("text", "label"),
            (2, 1),
        ),
        (["label", "rating", "tweet_id", "body"], [("pos", "9", "x17", "short")], ("text", "label"), (3, 0)),
        (["id", "answer", "question"], [("1", "a", "b")], ("source", "target"), (2, 1)),
        (["id", "french", "english"], [("1", "a", "b")], ("source", "target"), (1, 2)),
        (None, [("7", "a", "b")], ("source", "target"), (1, 2)),
    ],
    ids=str,
)
def test_which_column_is_which(
    names: list[str] | None, rows: Rows, settings: tuple[str, ...], expected: tuple[int, ...]
) -> None:
    found = guess_columns(names, rows, settings)
    assert tuple(found[setting] for setting in settings) == expected
