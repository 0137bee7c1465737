"""The table of a ladder: guesses counted by hand, intervals, the best rung, and the cheapest that is as good."""

from __future__ import annotations

import math

import numpy as np
import pytest

from weft.compare import Tally
from weft.data import Labelled, Tagged
from weft.ladder.baseline import guess
from weft.ladder.page import conclusion, plot_text, rows
from weft.ladder.summary import ScoredRung, build_summary


def share(right):
    """A rung that is right or wrong on each example."""
    numbers = np.stack([np.asarray(right, dtype=float), np.ones(len(right))], axis=1)
    return Tally(numbers, np.arange(len(right)), lambda sums: {"accuracy": float(sums[0] / sums[1])})


def summary(*rungs, task="classify", metric="accuracy"):
    found = [ScoredRung(name, tally, 10, seconds, 1000, 5.0, *more) for name, tally, seconds, *more in rungs]
    return build_summary(found, task, metric, "test", [], {})


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
        "best is the best (90.00%); nearly is not significantly worse (89.00%; on 100 examples the difference may be "
        "up to 5.00 points) and trained for 2.0 s instead of 60.0 s"
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


def test_no_rung_is_the_cheapest_where_the_lead_over_a_rule_may_be_chance():
    """22 of 40 right against 19: the interval of the difference contains zero, so nothing is known about the model."""
    right, majority = [1] * 22 + [0] * 18, [0] * 10 + [1] * 19 + [0] * 11
    found = summary(("majority", share(majority), 0.0, False), ("bag", share(right), 1.5))
    assert (found.best, found.cheapest, found.examples) == ("bag", None, 40)
    assert found.tree()["cheapest"] is None
    assert conclusion(found) == (
        "40 examples cannot separate the rungs: bag has the best score (55.00%), but its lead over majority (47.50%) "
        "may be chance; measure on more examples, or train longer"
    )
    sure = summary(("majority", share(majority * 50), 0.0, False), ("bag", share(right * 50), 1.5))
    assert sure.cheapest == "bag", "2,000 examples show the same lead"


def test_few_examples_choose_no_cheapest():
    found = summary(("small", share([1] * 12 + [0] * 8), 1.0), ("large", share([1] * 13 + [0] * 7), 9.0))
    assert found.cheapest is None
    assert conclusion(found) == (
        "20 examples cannot separate the rungs: large has the best score (65.00%); measure on at least 30"
    )


def test_a_rule_that_is_better_than_every_model():
    found = summary(("per-word", share([1] * 90 + [0] * 10), 0.0, False), ("rnn", share([1] * 40 + [0] * 60), 9.0))
    assert (found.best, found.cheapest) == ("per-word", "per-word")
    assert "no model is as good as this rule" in conclusion(found)


def test_how_much_worse_a_rung_may_be():
    """30 examples on which one rung is right and the other wrong, 20 the other way round, of 1,000: a difference of 1
    point with a standard error of √(50 - 0.1) / 1000."""
    first = [1] * 30 + [0] * 20 + [1] * 950
    second = [0] * 30 + [1] * 20 + [1] * 950
    best, other = summary(("best", share(first), 2.0), ("other", share(second), 1.0)).rungs
    assert best.behind == 0
    assert other.behind == pytest.approx(0.01 + 1.96 * math.sqrt(50 - 0.1) / 1000, rel=0.1)
