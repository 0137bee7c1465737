"""Counted models with the numbers that a person works out by hand."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import DataError
from weft.models import counts

CORPUS = ["I am NLP", "NLP I am", "I do not like green eggs"]
TAGS = ["VB", "TO", "NN", "PPSS"]
ROWS = {
    "<s>": [0.19, 0.43, 0.41, 0.67],
    "VB": [0.38, 0.35, 0.47, 0.70],
    "TO": [0.83, 0, 0.47, 0],
    "NN": [0.40, 0.16, 0.87, 0.45],
    "PPSS": [0.23, 0.79, 0.12, 0.14],
}
TRANSITIONS = {given_: dict(zip(TAGS, row, strict=True)) for given_, row in ROWS.items()}
EMISSIONS = {
    "VB": {"go": 0.1, "school": 0.8},
    "TO": {"to": 0.99},
    "NN": {"go": 0.85, "school": 0.68},
    "PPSS": {"I": 0.37},
}


@pytest.mark.covers("M9")
def test_bigrams_of_three_sentences():
    table = counts.bigram(CORPUS)
    assert table["<s>"]["I"] == Fraction(2, 3)
    assert table["I"]["am"] == Fraction(2, 3)
    assert table["I"]["do"] == Fraction(1, 3)
    assert table["am"]["NLP"] == Fraction(1, 2)
    assert table["<s>"]["NLP"] == Fraction(1, 3)
    assert table["am"]["I"] == 0
    assert table["am"].counts == {"NLP": 1, "</s>": 1}
    assert all(sum(row.values()) == 1 for row in table.values())
    assert "P(am | I) = 2/3" in repr(table)


@pytest.mark.covers("M9")
def test_emissions_of_tagged_words():
    noun = [("girl", "noun")] * 4 + [("sleep", "noun")]
    verb = [("sleep", "verb")] * 3 + [("girl", "verb")] * 2
    table = counts.emissions([noun, verb])
    assert float(table["noun"]["girl"]) == 0.8
    assert float(table["noun"]["sleep"]) == 0.2
    assert float(table["verb"]["sleep"]) == 0.6
    assert float(table["verb"]["girl"]) == 0.4


@pytest.mark.covers("M9")
def test_viterbi_on_i_go_to_school():
    best = counts.viterbi("I go to school", TRANSITIONS, EMISSIONS)
    assert best.tags == ("PPSS", "NN", "TO", "VB")
    assert best.score == pytest.approx(0.0026595, abs=5e-8)
    assert best.score == pytest.approx(0.67 * 0.37 * 0.12 * 0.85 * 0.16 * 0.99 * 0.83 * 0.8)
    first, second, third, fourth = best.trellis
    assert first["PPSS"] == counts.TrellisCell(pytest.approx(0.2479), None)
    assert first["NN"].score == 0
    assert second["NN"] == counts.TrellisCell(pytest.approx(0.2479 * 0.12 * 0.85), "PPSS")
    assert second["VB"] == counts.TrellisCell(pytest.approx(0.2479 * 0.23 * 0.1), "PPSS")
    assert third["TO"] == counts.TrellisCell(pytest.approx(0.2479 * 0.12 * 0.85 * 0.16 * 0.99), "NN")
    assert fourth["VB"].before == fourth["NN"].before == "TO"
    assert fourth["VB"].score > fourth["NN"].score > fourth["TO"].score == 0


scores = st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0, 2.0])


@given(st.data(), st.lists(st.sampled_from("uvw"), min_size=1, max_size=4))
def test_viterbi_finds_what_trying_everything_finds(data, words):
    tags = ["A", "B"]
    a = {given_: {tag: data.draw(scores) for tag in [*tags, "</s>"]} for given_ in ["<s>", *tags]}
    b = {tag: {word: data.draw(scores) for word in "uvw"} for tag in tags}

    def score(path):
        steps = zip(["<s>", *path], [*path, "</s>"], strict=True)
        return prod(a[one][two] for one, two in steps) * prod(
            b[tag][word] for tag, word in zip(path, words, strict=True)
        )

    best = max(map(score, product(tags, repeat=len(words))))
    if best == 0:
        with pytest.raises(DataError):
            counts.viterbi(words, a, b)
    else:
        found = counts.viterbi(words, a, b)
        assert found.score == pytest.approx(best)
        assert score(found.tags) == pytest.approx(best)


def test_counted_tables_go_into_viterbi():
    tagged = [[("the", "D"), ("cat", "N"), ("sleeps", "V")], [("cats", "N"), ("sleep", "V")]]
    transitions = counts.bigram([[tag for _, tag in sentence] for sentence in tagged])
    found = counts.viterbi("the cat sleeps", transitions, counts.emissions(tagged))
    assert found.tags == ("D", "N", "V")
    assert found.score == Fraction(1, 2) * Fraction(1, 2) * Fraction(1, 2)


@pytest.mark.parametrize(
    ("words", "transitions", "emissions", "said"),
    [
        ("", TRANSITIONS, EMISSIONS, "no words to tag"),
        ("I fly", TRANSITIONS, EMISSIONS, 'no tag has "fly"'),
        ("to to", TRANSITIONS, EMISSIONS, 'no tags up to word 2, "to", have a score above 0'),
        ("I", {"VB": {}}, EMISSIONS, "transitions without a row <s>"),
        ("I", TRANSITIONS, {}, "emissions without a row"),
        ("I", TRANSITIONS, {"VB": {"I": -1}}, r"emissions\['VB'\]\['I'\] = -1"),
        ("I", TRANSITIONS, {"VB": {"I": float("nan")}}, "= nan"),
    ],
)
def test_what_cannot_be_tagged_is_said(words, transitions, emissions, said):
    with pytest.raises(DataError, match=said):
        counts.viterbi(words, transitions, emissions)


def test_nothing_to_count_is_said():
    with pytest.raises(DataError, match="no sentences"):
        counts.bigram([])
    with pytest.raises(DataError, match="no tagged words"):
        counts.emissions([])
