"""The rules of span tags: what is legal, and the repair of what is not."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from weft.metrics import SpanScheme, looks_like_spans, spans

UNKNOWN = -1
EVERY = ["O", *(f"{mark}-{kind}" for mark in "BIES" for kind in "XY")]
LABELS = st.sets(st.sampled_from(EVERY), min_size=1).map(sorted).filter(looks_like_spans)


def legal(labels: str, tags: str) -> bool:
    names = labels.split()
    return not SpanScheme(names, unknown=UNKNOWN).breaks(np.array([names.index(tag) for tag in tags.split()]))


BIO, BIOES = "O B-X I-X B-Y I-Y", "O B-X I-X E-X S-X B-Y E-Y S-Y"


@pytest.mark.parametrize("tags", ["O O", "B-X I-X I-X O", "B-X B-X", "B-X B-Y I-Y", "O B-X"])
def test_legal_in_bio(tags):
    assert legal(BIO, tags)


@pytest.mark.parametrize("tags", ["I-X", "O I-X", "B-X I-Y", "B-X O I-X", "B-Y I-X O"])
def test_illegal_in_bio(tags):
    assert not legal(BIO, tags)


@pytest.mark.parametrize("tags", ["S-X", "B-X E-X", "B-X I-X I-X E-X O S-Y", "S-X S-X B-Y E-Y B-X E-X"])
def test_legal_in_bioes(tags):
    assert legal(BIOES, tags)


@pytest.mark.parametrize(
    "tags", ["B-X", "B-X O", "B-X I-X", "E-X", "S-X E-X", "B-X E-Y", "B-X B-X", "O I-X E-X", "S-X I-X"]
)
def test_illegal_in_bioes(tags):
    assert not legal(BIOES, tags)


def test_a_type_without_a_first_tag_may_begin_with_another():
    """In IOB1 a span begins with I, and B only separates two spans of a type."""
    assert legal("O I-X B-Y I-Y", "O I-X I-X B-Y")
    assert not legal("O I-X B-Y I-Y", "I-Y")


@given(labels=LABELS, length=st.integers(1, 4))
def test_there_is_a_legal_sequence_of_every_length_and_every_one_is_made_of_legal_steps(labels, length):
    scheme = SpanScheme(labels, unknown=UNKNOWN)
    found = [tags for tags in product(range(len(labels)), repeat=length) if not scheme.breaks(np.array(tags))]
    assert found
    for tags in found[:50]:
        assert scheme.start[tags[0]]
        assert scheme.end[tags[-1]]
        assert all(scheme.transitions[one, other] for one, other in pairwise(tags))
    assert not scheme.breaks(np.full(length, UNKNOWN))


@given(labels=LABELS, data=st.data())
def test_a_repair_is_legal_and_marks_the_same_spans_or_knows_nothing(labels, data):
    scheme = SpanScheme(labels, unknown=UNKNOWN)
    tags = np.array(data.draw(st.lists(st.integers(-1, len(labels) - 1), min_size=1, max_size=7)))
    fixed = scheme.repair(tags)
    assert not scheme.breaks(fixed)
    assert len(fixed) == len(tags)
    if not scheme.breaks(tags):
        assert fixed.tolist() == tags.tolist()
    together = scheme.repair_rows(
        np.array([[*tags, 0, 0], [*tags, *tags[:1], 0]]), np.array([len(tags), len(tags) + 1])
    )
    assert together[0, : len(tags)].tolist() == fixed.tolist()
    assume(UNKNOWN not in fixed)
    assert spans([labels[number] for number in fixed]) == spans([labels[number] for number in tags])


def test_a_repair_by_hand():
    names = BIO.split()
    scheme = SpanScheme(names, unknown=UNKNOWN)

    def repaired(tags: str) -> str:
        return " ".join(names[number] for number in scheme.repair(np.array([names.index(tag) for tag in tags.split()])))

    assert repaired("I-X I-X O I-Y") == "B-X I-X O B-Y"
    assert repaired("B-X I-Y I-Y B-Y") == "B-X B-Y I-Y B-Y"
    assert scheme.repair_rows(np.zeros((2, 0), dtype=np.int64), np.zeros(2, dtype=np.int64)).shape == (2, 0)
