"""Spans in tag sequences and their F1, by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.metrics import ClassScore, Span, SpanTally, looks_like_spans, spans

TAGS = st.sampled_from(["O", *(f"{mark}-{kind}" for mark in "BIES" for kind in "XY")])


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("", []),
        ("O O", []),
        ("B-X I-X O B-Y", [("X", 0, 2), ("Y", 3, 4)]),
        ("B-X B-X I-X", [("X", 0, 1), ("X", 1, 3)]),
        ("O I-X I-X", [("X", 1, 3)]),
        ("B-X I-Y I-Y", [("X", 0, 1), ("Y", 1, 3)]),
        ("B-X O I-X", [("X", 0, 1), ("X", 2, 3)]),
        ("S-X B-X I-X E-X", [("X", 0, 1), ("X", 1, 4)]),
        ("B-X E-X I-X", [("X", 0, 2), ("X", 2, 3)]),
        ("E-X E-X", [("X", 0, 1), ("X", 1, 2)]),
        ("S-X I-X S-Y", [("X", 0, 1), ("X", 1, 2), ("Y", 2, 3)]),
        ("B-a-b I-a-b I-a", [("a-b", 0, 2), ("a", 2, 3)]),
        ("SYM B-X INTJ", [("X", 1, 2)]),
    ],
)
def test_spans_of_tags(tags: str, expected: list[tuple[str, int, int]]) -> None:
    assert spans(tags.split()) == [Span(*span) for span in expected]


@given(tags=st.lists(TAGS, max_size=12))
def test_spans_cover_exactly_what_is_not_outside(tags: list[str]) -> None:
    covered = [position for span in spans(tags) for position in range(span.start, span.end)]
    assert covered == [position for position, tag in enumerate(tags) if tag != "O"]
    assert all(tags[position].endswith(span.type) for span in spans(tags) for position in range(span.start, span.end))


@given(tags=st.lists(TAGS, max_size=12))
def test_every_b_begins_a_span_and_every_i_after_o(tags: list[str]) -> None:
    starts = {span.start for span in spans(tags)}
    for position, tag in enumerate(tags):
        before = tags[position - 1] if position else "O"
        if tag[0] in "BS" or (tag != "O" and before[0] in "OES"):
            assert position in starts
        elif tag != "O":
            assert (position in starts) == (before[1:] != tag[1:])


GOLD = ["B-PER", "I-PER", "O", "B-LOC", "O", "B-PER"]
PREDICTED = ["B-PER", "I-PER", "O", "B-PER", "B-LOC", "O"]


@pytest.mark.covers("E3")
def test_hand_worked_scores() -> None:
    # Gold: PER 0-2, LOC 3-4, PER 5-6. Predicted: PER 0-2, PER 3-4, LOC 4-5. Only the first is right.
    tally = SpanTally()
    tally.add(GOLD, PREDICTED)
    tally.add(["O", "B-LOC"], ["O", "B-LOC"])
    assert (tally.precision, tally.recall, tally.f1) == (2 / 4, 2 / 4, 2 / 4)
    assert tally.per_class() == [ClassScore("LOC", 1 / 2, 1 / 2, 1 / 2, 2), ClassScore("PER", 1 / 2, 1 / 2, 1 / 2, 2)]


def test_precision_is_of_predictions_and_recall_of_gold() -> None:
    tally = SpanTally()
    tally.add(["B-X", "O", "B-X", "B-Y"], ["B-X", "O", "O", "O"])
    assert (tally.precision, tally.recall, tally.f1) == (1.0, pytest.approx(1 / 3), pytest.approx(1 / 2))
    assert tally.per_class()[1] == ClassScore("Y", 0.0, 0.0, 0.0, 1)


def test_a_span_with_one_wrong_end_is_wrong() -> None:
    tally = SpanTally()
    tally.add(["B-X", "I-X", "O"], ["B-X", "I-X", "I-X"])
    assert tally.f1 == 0.0


@given(sentences=st.lists(st.lists(st.tuples(TAGS, TAGS), max_size=6), max_size=5), split=st.integers(0, 5))
def test_order_does_not_matter(sentences: list[list[tuple[str, str]]], split: int) -> None:
    tallies = SpanTally(), SpanTally()
    for tally, order in zip(tallies, (sentences, sentences[split:] + sentences[:split]), strict=True):
        for sentence in order:
            tally.add([gold for gold, _ in sentence], [predicted for _, predicted in sentence])
    assert tallies[0].per_class() == tallies[1].per_class()
    assert tallies[0].f1 == tallies[1].f1


def test_no_spans_give_zero() -> None:
    tally = SpanTally()
    assert (tally.precision, tally.recall, tally.f1, tally.per_class()) == (0.0, 0.0, 0.0, [])
    tally.add(["O"], ["O"])
    assert tally.f1 == 0.0


def test_unequal_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="2 gold tags for 1 predictions"):
        SpanTally().add(["O", "O"], ["O"])


@pytest.mark.parametrize("tags", [["O", "B-X", "I-X"], ["B-X"], ["S-X", "O"], ["B-X", "E-X"], ["B-a-b"]])
def test_span_tags_are_recognised(tags: list[str]) -> None:
    assert looks_like_spans(iter(tags))


@pytest.mark.parametrize("tags", [[], ["O"], ["I-X"], ["NOUN", "B-X"], ["B-X", "B"], ["B-"], ["SYM", "X"], ["B-X", ""]])
def test_other_tags_are_not(tags: list[str]) -> None:
    assert not looks_like_spans(iter(tags))
