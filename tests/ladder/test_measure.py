"""The table of a ladder: guesses counted by hand, intervals, the best rung, and the cheapest that is as good."""

from __future__ import annotations

import math

import numpy as np
import pytest

from weft.compare import Tally
from weft.data import Labelled, Tagged
from weft.ladder import measure
from weft.ladder.baseline import guess
from weft.ladder.page import conclusion, plot_text, rows


def share(right):
    """A rung that is right or wrong on each example."""
    numbers = np.stack([np.asarray(right, dtype=float), np.ones(len(right))], axis=1)
    return Tally(numbers, np.arange(len(right)), lambda sums: {"accuracy": float(sums[0] / sums[1])})


def summary(*rungs, task="classify", metric="accuracy"):
    found = [measure._Found(name, tally, 10, seconds, 1000, 5.0) for name, tally, seconds in rungs]
    return measure._summary(found, task, metric, "test", [], {})


def test_the_cheapest_that_is_not_significantly_worse():
    best = [1] * 90 + [0] * 10
    nearly = [1] * 88 + [0] * 10 + [1, 0]
    bad = [1] * 50 + [0] * 50
    found = summary(("bad", share(bad), 0.1), ("nearly", share(nearly), 2.0), ("best", share(best), 60.0))
    assert (found.best, found.cheapest) == ("best", "nearly")
    assert [rung.score for rung in found.rungs] == [0.5, 0.89, 0.9]
    for rung in found.rungs:
        assert rung.low < rung.score < rung.high
        # The middle 95% of the draws of a share: about 1.96 standard errors on either side.
        error = math.sqrt(rung.score * (1 - rung.score) / 100)
        assert rung.high - rung.low == pytest.approx(2 * 1.96 * error, rel=0.15)
    assert conclusion(found) == (
        "best is the best (90.00%); nearly is not significantly worse (89.00%) and trained for 2.0 s instead of 60.0 s"
    )


def test_a_small_difference_on_the_same_examples_can_be_sure():
    """The paired bootstrap sees that one rung is right wherever the other is, and on 8 more."""
    found = summary(("less", share([1] * 82 + [0] * 18), 1.0), ("more", share([1] * 90 + [0] * 10), 2.0))
    assert found.rungs[0].high > found.rungs[1].low, "the intervals overlap"
    assert found.cheapest == "more"


def test_a_lower_perplexity_is_better_and_an_infinite_one_is_last():
    def losses(values):
        numbers = np.stack([np.asarray(values, dtype=float), np.ones(len(values))], axis=1)
        return Tally(numbers, np.arange(len(values)), lambda sums: {"perplexity": float(np.exp(sums[0] / sums[1]))})

    found = summary(
        ("zero", losses([math.inf, *[1.0] * 49]), 0.1),
        ("low", losses([1.0] * 50), 3.0),
        ("high", losses([2.0, 2.1] * 25), 1.0),
        task="lm",
        metric="perplexity",
    )
    assert (found.best, found.cheapest) == ("low", "low")
    zero, low, _ = found.tree()["rungs"]
    assert zero["score"] is zero["low"] is zero["high"] is None
    assert low["score"] == pytest.approx(math.e)
    assert rows(found)[0][2:4] == ["∞", "—"]
    lines = plot_text(found, columns=20, lines=5).splitlines()
    assert "2" in lines[0], "the best is at the top"
    assert "3" in lines[4]
    assert len(lines) == 7


def test_the_most_frequent_label_is_guessed():
    train = [Labelled("a", "yes"), Labelled("b", "yes"), Labelled("c", "no")]
    found = guess(train, [Labelled("d", "yes"), Labelled("e", "no"), Labelled("f", "yes"), Labelled("g", "new")])
    assert found.tally.metrics()["accuracy"] == 0.5
    assert found.parameters == 1


def test_the_most_frequent_tag_of_each_word_is_guessed():
    train = [
        Tagged(("the", "duck", "sees"), ("D", "N", "V")),
        Tagged(("ducks", "duck"), ("N", "V")),
        Tagged(("a", "duck"), ("D", "N")),
    ]
    found = guess(train, [Tagged(("the", "duck", "swims"), ("D", "N", "V")), Tagged(("they", "duck"), ("P", "V"))])
    # the D, duck N, unknown swims and they as the most frequent tag of all, N; duck N where it is V; P is unseen.
    assert found.tally.numbers.shape[0] == 2
    assert found.tally.metrics()["accuracy"] == pytest.approx(2 / 5)
    assert found.parameters == 5


def test_spans_are_guessed_too():
    train = [Tagged(("Ann", "ran"), ("B-PER", "O")), Tagged(("he", "ran"), ("O", "O"))]
    found = guess(train, [Tagged(("Ann", "saw", "Bob"), ("B-PER", "O", "B-PER"))])
    assert found.tally.metrics()["span_f1"] == pytest.approx(2 * 1 * 0.5 / 1.5)
