"""Charts, forests and rankings against plain fixpoints over random grammars, with cycles and empty rules."""

from __future__ import annotations

import math
from itertools import islice, pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.grammar import naive

from weft.errors import DataError
from weft.grammar import Grammar, Rule, Terminal, grammar_from_text, parse
from weft.limits import CHART_ITEMS

CAT = """
S -> NP VP
NP -> Det N | NP PP | 'I'
VP -> V NP | VP PP
PP -> P NP
Det -> 'the' | 'a'
N -> 'cat' | 'rat' | 'telescope'
V -> 'caught' | 'saw'
P -> 'with'
"""
NAMES = ["S", "A", "B"]
WORDS = ["x", "y"]


@st.composite
def grammars(draw):
    """Small probabilistic grammars with left recursion, empty rules, unit cycles and useless rules."""
    symbol = st.sampled_from(NAMES) | st.sampled_from([Terminal(word) for word in WORDS])
    rights = st.lists(symbol, max_size=3).map(tuple)
    rules = []
    for name in NAMES:
        found = draw(st.lists(rights, min_size=1, max_size=3, unique=True))
        shares = draw(st.lists(st.integers(1, 4), min_size=len(found), max_size=len(found)))
        rules += [Rule(name, right, share / sum(shares)) for right, share in zip(found, shares, strict=True)]
    return Grammar(rules)


sentences = st.lists(st.sampled_from(WORDS), max_size=4)
ROUNDS = 30


@pytest.mark.covers("M8")
def test_the_cat_caught_the_rat():
    found = parse(grammar_from_text(CAT), "the cat caught the rat")
    assert found
    assert found.count == 1
    assert str(found.best) == "(S (NP (Det the) (N cat)) (VP (V caught) (NP (Det the) (N rat))))"
    assert found.best.words() == ["the", "cat", "caught", "the", "rat"]
    assert [str(step) for step in found.best.derivation()] == [
        "NP VP",
        "Det N VP",
        "the N VP",
        "the cat VP",
        "the cat V NP",
        "the cat caught NP",
        "the cat caught Det N",
        "the cat caught the N",
        "the cat caught the rat",
    ]


@pytest.mark.covers("M8")
@settings(max_examples=150)
@given(grammars(), sentences)
def test_trees_are_found_and_counted_as_the_definition_says(grammar, words):
    found = parse(grammar, words)
    history = naive.counts(grammar, words, ROUNDS)
    assert bool(found) == (history[-1] > 0)
    if not found:
        assert found.count == 0
        assert list(found.trees()) == []
    elif found.count == math.inf:
        assert history[-1] > history[ROUNDS // 2] or history[-1] == naive.MAX_COUNT, "ever higher trees"
    else:
        assert found.count == history[-1] == history[ROUNDS // 2]


@settings(max_examples=150)
@given(grammars(), sentences)
def test_the_best_tree_and_the_sum_of_all(grammar, words):
    found = parse(grammar, words)
    if not found:
        assert found.probability == 0
        return
    assert found.best.probability == pytest.approx(naive.best(grammar, words, ROUNDS))
    assert found.best.probability == pytest.approx(naive.probability(grammar, found.best))
    summed = naive.inside(grammar, words, ROUNDS)
    further = naive.inside(grammar, words, 2 * ROUNDS)
    assert found.probability >= summed * (1 - 1e-9), "trees of a bounded height are some of all"
    if further == pytest.approx(summed, rel=1e-12):
        assert found.probability == pytest.approx(further, rel=1e-6)


@settings(max_examples=150)
@given(grammars(), sentences)
def test_trees_come_in_the_order_of_their_probability_each_once(grammar, words):
    found = parse(grammar, words)
    trees = list(found.trees(60))
    assert len(trees) == min(found.count, 60)
    assert len(set(trees)) == len(trees)
    for tree in trees:
        assert tree.words() == words
        assert tree.probability == pytest.approx(naive.probability(grammar, tree))
    chances = [tree.probability for tree in trees]
    assert all(later <= earlier * (1 + 1e-9) for earlier, later in pairwise(chances))
    if found.count < 60:
        assert sum(chances) == pytest.approx(found.probability)


def test_every_sentence_of_a_short_length_is_judged_rightly():
    """Palindromes over two letters, by a grammar that needs its empty rule."""
    grammar = grammar_from_text("S -> 'x' S 'x' | 'y' S 'y' | 'x' | 'y' | ")
    for length in range(7):
        for words in product("xy", repeat=length):
            assert bool(parse(grammar, words)) == (words == words[::-1])


def test_exponentially_many_trees_are_counted():
    found = parse(grammar_from_text("S -> S S | 'a'"), ["a"] * 100)
    assert found.count == math.comb(198, 99) // 100, "the Catalan number of 99"
    assert len({str(tree) for tree in found.trees(50)}) == 50


def test_trees_without_probabilities_come_by_their_number_of_rules():
    found = parse(grammar_from_text("S -> A | B | 'x'\nA -> B\nB -> 'x'"), "x")
    assert [str(tree) for tree in found.trees()] == ["(S x)", "(S (B x))", "(S (A (B x)))"]
    assert found.probability is None
    assert found.best.probability is None


@pytest.mark.parametrize(
    ("text", "words", "first"),
    [
        ("S -> S | 'x'", "x", ["(S x)", "(S (S x))", "(S (S (S x)))"]),
        ("S -> A\nA -> S | 'x'", "x", ["(S (A x))", "(S (A (S (A x))))"]),
        ("S -> E S | 'x'\nE -> ε", "x", ["(S x)", "(S (E) (S x))"]),
        ("S -> S S | ε", "", ["(S)", "(S (S) (S))"]),
        ("A -> B\nB -> C\nC -> A | ε", "", ["(A (B (C)))", "(A (B (C (A (B (C))))))"]),
    ],
)
def test_cycles_end_and_mean_infinitely_many_trees(text, words, first):
    found = parse(grammar_from_text(text), words)
    assert found.count == math.inf
    assert [str(tree) for tree in islice(found.trees(), len(first))] == first


def test_the_sum_over_infinitely_many_trees_is_exact():
    found = parse(grammar_from_text("S -> S [2/3] | 'x' [1/3]"), "x")
    assert found.probability == pytest.approx(1)
    # s = 0.4 s² + 0.3: the smaller root
    found = parse(grammar_from_text("S -> S S [0.4] | ε [0.3] | 'x' [0.3]"), "")
    assert found.probability == pytest.approx((1 - math.sqrt(1 - 4 * 0.4 * 0.3)) / 0.8, rel=1e-12)


def test_long_sentences_neither_recurse_nor_underflow():
    grammar = grammar_from_text("S -> 'a' S [0.5] | 'b' [0.5]")
    words = [*["a"] * 1499, "b"]
    found = parse(grammar, words)
    assert found.count == 1
    assert found.log_probability == pytest.approx(1500 * math.log(0.5))
    tree = found.best
    assert tree.words() == words
    assert tree == found.best
    assert len(tree.derivation()) == 1500
    assert tree.brackets().count("(") == 1500
    with pytest.raises(DataError, match="too deep for JSON"):
        tree.record()


@pytest.mark.covers("M8")
@pytest.mark.parametrize("rules", ["S -> W S | W", "S -> S W | W", "S -> W A | W\nA -> B\nB -> W A | W"])
def test_a_chart_grows_with_the_words_where_the_grammar_is_not_ambiguous(rules):
    """Leo (1991): right recursion costs no more than left recursion; the trees are the same."""
    grammar, words = grammar_from_text(rules + "\nW -> 'a' | 'b'"), ["a", "b"] * 1000
    found = parse(grammar, words)
    assert sum(map(len, found._chart.items)) < 20 * len(words)
    assert found.count == 1
    assert found.best.words() == words


def test_a_search_that_would_take_minutes_is_refused(monkeypatch):
    monkeypatch.setattr("weft.grammar.chart.CHART_STEPS", 10_000)
    with pytest.raises(DataError, match=r"over 10,000 steps in the chart after \d+ of 500 words"):
        parse(grammar_from_text("S -> S S | 'a'"), ["a"] * 500)


def test_a_chart_that_would_fill_the_memory_is_refused(monkeypatch):
    monkeypatch.setattr("weft.grammar.chart.CHART_ITEMS", 1000)
    assert CHART_ITEMS > 1000
    with pytest.raises(DataError, match=r"over 1,000 items in the chart after \d+ of 500 words"):
        parse(grammar_from_text("S -> S S | 'a'"), ["a"] * 500)


@pytest.mark.parametrize(
    ("words", "reached", "expected", "said"),
    [
        ("the cat the rat", 2, {"caught", "saw", "with"}, 'after "the cat", before "the" (word 3 of 4)'),
        (
            "the cat caught the",
            4,
            {"cat", "rat", "telescope"},
            'ends too early; expected N ("cat", "rat", "telescope")',
        ),
        ("", 0, {"I", "the", "a"}, "the text is empty"),
        ("caught", 0, {"I", "the", "a"}, 'at the beginning, before "caught"'),
        ("the Cat", 1, {"cat", "rat", "telescope"}, '1 unknown word: "Cat" (did you mean "cat"?)'),
        ("I saw a cat saw", 4, {"with"}, 'expected P ("with") or the end'),
    ],
)
def test_a_sentence_without_a_tree_says_how_far_it_got(words, reached, expected, said):
    found = parse(grammar_from_text(CAT), words)
    assert not found
    assert found.reached == reached
    assert set(found.expected) == expected
    assert said in found.explain()
    with pytest.raises(DataError, match="no tree"):
        found.best  # noqa: B018


@settings(max_examples=100)
@given(grammars(), sentences)
def test_expected_words_are_those_that_begin_a_longer_sentence(grammar, words):
    """A word is expected after `reached` words only if the parse gets further with it, and all such words are."""
    found = parse(grammar, words)
    if found:
        return
    read = words[: found.reached]
    further = {word for word in WORDS if parse(grammar, [*read, word]).reached == len(read) + 1}
    assert {word for word in found.expected if word in WORDS} == further
