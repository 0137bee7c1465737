"""Beam search between its two ends: greedy search and exhaustive search."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from weft.decoding import DecodeConfig, search, search_exhaustive
from weft.decoding.request import prepare
from weft.decoding.search import Search
from weft.errors import ConfigError
from weft.text import EOS, MASK, PAD, SOS, UNK

YES, OK = 5, 6
YES_OK = {
    (): {YES: 0.5, OK: 0.4, EOS: 0.1},
    (YES,): {YES: 0.4, OK: 0.3, EOS: 0.3},
    (OK,): {YES: 0.2, OK: 0.7, EOS: 0.1},
}
AGAIN = settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
PENALTIES = st.sampled_from([0.0, 0.5, 1.0, 2.0])


@pytest.mark.covers("D4")
def test_greedy_misses_what_beam_and_exhaustive_search_find(table_model: Any) -> None:
    model = table_model(YES_OK, vocabulary=7)
    greedy = DecodeConfig(beam=1, length_penalty=0.0, max_length=3)
    beam = DecodeConfig(beam=2, length_penalty=0.0, max_length=3)
    ((first,),) = search(model, None, 1, greedy)
    ((second,),) = search(model, None, 1, beam)
    ((best,),) = search_exhaustive(model, None, 1, beam)
    assert (first.tokens, first.score) == ((YES, YES), pytest.approx(-1.6094379))
    assert (second.tokens, second.score) == ((OK, OK), pytest.approx(-1.2729657))
    assert (best.tokens, best.score) == ((OK, OK), pytest.approx(-1.2729657))
    assert second.finished


@pytest.mark.covers("D3")
def test_the_whole_list_of_the_worked_example(table_model: Any) -> None:
    """All seven texts with their probabilities, best first."""
    model = table_model(YES_OK, vocabulary=7)
    config = DecodeConfig(beam=7, n_best=7, length_penalty=0.0, max_length=3)
    (found,) = search(model, None, 1, config)
    assert [math.exp(one.score) for one in found] == pytest.approx([0.28, 0.2, 0.15, 0.15, 0.1, 0.08, 0.04])
    assert [one.tokens for one in found if one.tokens not in ((YES,), (YES, OK))] == [
        (OK, OK),
        (YES, YES),
        (),
        (OK, YES),
        (OK,),
    ]


@pytest.mark.covers("D1")
@given(seed=st.integers(0, 10_000), penalty=PENALTIES, data=st.data())
@AGAIN
def test_greedy_is_a_beam_of_one(random_model: Any, seed: int, penalty: float, data: st.DataObject) -> None:
    model = random_model(seed=seed, sentences=4)
    config = DecodeConfig(beam=1, length_penalty=penalty, max_length=8, min_length=data.draw(st.integers(0, 2)))
    prefixes = data.draw(st.lists(st.lists(st.integers(5, 7), max_size=2), min_size=4, max_size=4))
    for row, (found,) in enumerate(search(model, model.memory, 4, config, prefixes=prefixes)):
        state, said, read = model.start(model.memory, torch.tensor([row])), [], [SOS, *prefixes[row]]
        for token in read[:-1]:
            _, state, _ = model.step(torch.tensor([token]), state)
        token = read[-1]
        while token != EOS and len(said) < 8:
            logits, state, _ = model.step(torch.tensor([token]), state)
            logits[:, [PAD, SOS, MASK, *[EOS] * (len(said) < config.min_length)]] = -torch.inf
            token = int(logits.argmax())
            said.append(token)
        assert (*found.tokens, *[EOS] * found.finished) == tuple(said)


@pytest.mark.covers("D4")
@given(seed=st.integers(0, 10_000), penalty=PENALTIES, n_best=st.integers(1, 6), data=st.data())
@AGAIN
def test_a_beam_that_keeps_everything_is_exhaustive(
    random_model: Any, seed: int, penalty: float, n_best: int, data: st.DataObject
) -> None:
    """Three tokens and eos, up to four steps: 1 + 3 + 9 + 27 texts that end and 81 that the limit cuts."""
    model = random_model(seed=seed, sentences=2)
    forbid = (PAD, SOS, MASK, UNK)
    config = DecodeConfig(
        beam=121, n_best=n_best, length_penalty=penalty, max_length=4, min_length=data.draw(st.integers(0, 2))
    )
    prefixes = data.draw(st.lists(st.lists(st.integers(5, 7), max_size=2), min_size=2, max_size=2))
    limits = data.draw(st.lists(st.integers(1, 4), min_size=2, max_size=2))
    asked = {"prefixes": prefixes, "limits": limits, "forbid": forbid}
    found = search(model, model.memory, 2, config, **asked)
    expected = search_exhaustive(model, model.memory, 2, config, **asked)
    for ours, oracle in zip(found, expected, strict=True):
        assert [(one.tokens, one.finished) for one in ours] == [(one.tokens, one.finished) for one in oracle]
        assert [one.score for one in ours] == pytest.approx([one.score for one in oracle])


@pytest.mark.covers("D3")
@given(seed=st.integers(0, 10_000), beam=st.integers(2, 6), penalty=PENALTIES)
@AGAIN
def test_the_list_is_ordered_and_has_no_text_twice(random_model: Any, seed: int, beam: int, penalty: float) -> None:
    model = random_model(seed=seed, sentences=2)
    config = DecodeConfig(beam=beam, n_best=beam, length_penalty=penalty, max_length=8)
    for found in search(model, model.memory, 2, config):
        assert len(found) == beam
        assert len({(one.tokens, one.finished) for one in found}) == beam
        ranks = [(one.finished, one.score) for one in found]
        assert ranks == sorted(ranks, reverse=True)


def test_a_sentence_stops_when_nothing_can_pass_what_it_has(table_model: Any) -> None:
    """By sums, 0.9 at the first step cannot be passed: one step is enough, though the limit is far."""
    table = {(): {EOS: 0.9, YES: 0.1}, (YES,): {YES: 1.0}, (YES, YES): {YES: 1.0}}
    model = table_model(table, vocabulary=7)
    ((found,),) = search(model, None, 1, DecodeConfig(beam=3, length_penalty=0.0, max_length=200))
    assert found.tokens == ()
    assert len(model.rows_seen) == 1


@pytest.mark.covers("D3")
def test_a_sentence_stops_after_as_many_ends_as_the_beam_is_wide_if_it_is_told_to(table_model: Any) -> None:
    model = table_model({(YES,) * said: {YES: 0.6, EOS: 0.4} for said in range(50)}, vocabulary=7)
    config = DecodeConfig(beam=3, n_best=3, max_length=50, stop="finished")
    (found,) = search(model, None, 1, config)
    assert len(model.rows_seen) == 3
    assert [len(one.tokens) for one in found] == [2, 1, 0]


@pytest.mark.parametrize("beam", [1, 2, 4, 8])
def test_early_ends_do_not_stop_a_better_text(table_model: Any, beam: int) -> None:
    """The right token has 0.9 at every step and the end 0.05, until the text is whole."""
    whole = (5, 6, 7, 8, 9, 10, 11)
    table = {whole[:said]: {token: 0.9, EOS: 0.05, 12: 0.05} for said, token in enumerate(whole)}
    model = table_model(table | {whole: {EOS: 0.9, 12: 0.1}}, vocabulary=13)
    ((found,),) = search(model, None, 1, DecodeConfig(beam=beam, max_length=40))
    assert found.tokens == whole
    assert found.score == pytest.approx(math.log(0.9))


def test_ends_take_no_place_from_those_that_go_on(table_model: Any) -> None:
    """Both hypotheses end at the second step, and two others go on, which are better in the mean."""
    table = {
        (): {5: 0.6, 6: 0.4},
        (5,): {EOS: 0.6, 7: 0.4},
        (6,): {EOS: 0.6, 8: 0.4},
        (5, 7): {9: 1.0},
        (6, 8): {9: 1.0},
    }
    model = table_model(table, vocabulary=10)
    (found,) = search(model, None, 1, DecodeConfig(beam=2, n_best=2, max_length=9))
    assert [one.tokens for one in found] == [(5, 7, 9), (6, 8, 9)]
    (found,) = search(model, None, 1, DecodeConfig(beam=2, n_best=2, max_length=9, stop="finished"))
    assert [one.tokens for one in found] == [(5,), (6,)]


def test_a_beam_of_four_hardly_ever_scores_below_greedy_search(random_model: Any) -> None:
    """Of 1,000 sentences of 50 random models; a beam may lose the greedy text, but seldom to a worse one."""
    below = 0
    for seed in range(50):
        model = random_model(seed=seed, sentences=20)
        wide, narrow = (
            search(model, model.memory, 20, DecodeConfig(beam=beam, max_length=12), attention=False) for beam in (4, 1)
        )
        below += sum(
            (one.finished, one.score) < (other.finished, other.score - 1e-9)
            for (one,), (other,) in zip(wide, narrow, strict=True)
        )
    assert below < 10


@given(seed=st.integers(0, 10_000), penalty=PENALTIES, n_best=st.integers(1, 4))
@AGAIN
def test_what_has_ended_is_only_replaced_by_better(random_model: Any, seed: int, penalty: float, n_best: int) -> None:
    """The scores of the best that have ended never fall from one step to the next."""
    model = random_model(seed=seed, sentences=3)
    config = DecodeConfig(beam=4, n_best=n_best, length_penalty=penalty, max_length=8)
    request = prepare(model, 3, config, prefixes=None, limits=None, forbid=(PAD, SOS, MASK))
    searching = Search(model, model.memory, request, attention=False)
    before = searching.slots.beams.best.sort(1).values
    beams = searching.slots.beams
    for _ in range(8):
        searching.slots.step()
        after = beams.best.sort(1).values
        assert (after >= before).all()
        before = after


def test_a_search_may_wait_until_the_whole_beam_has_finished(table_model: Any) -> None:
    """By sums nothing can pass 0.9, but three are wanted before it stops: that takes three steps."""
    model = table_model({(YES,) * said: {EOS: 0.9, YES: 0.1} for said in range(50)}, vocabulary=7)
    plain = {"beam": 3, "length_penalty": 0.0, "max_length": 50}
    (quick,) = search(model, None, 1, DecodeConfig(**plain))
    assert len(model.rows_seen) == 1
    (patient,) = search(model, None, 1, DecodeConfig(**plain, stop="finished"))
    assert len(model.rows_seen) == 1 + 3
    assert [one.tokens for one in quick] == [one.tokens for one in patient] == [()]


@given(seed=st.integers(0, 10_000), penalty=PENALTIES, n_best=st.integers(1, 3))
@AGAIN
def test_the_bound_stops_no_search_too_early(random_model: Any, seed: int, penalty: float, n_best: int) -> None:
    """A beam that keeps everything finds the same when it goes on to the limit."""
    model = random_model(seed=seed, sentences=2)
    plain = {"beam": 200, "n_best": n_best, "length_penalty": penalty, "max_length": 4}
    quick, patient = (
        search(model, model.memory, 2, DecodeConfig(**plain, stop=stop)) for stop in ("bound", "finished")
    )
    assert [[one.tokens for one in own] for own in quick] == [[one.tokens for one in own] for own in patient]


def test_no_beam_passes_the_best_of_200_random_models(random_model: Any) -> None:
    """And how many find it grows with the width: docs/decoding.md has the table."""
    right: Counter[int] = Counter()
    for seed in range(200):
        model = random_model(seed=seed, sentences=1, sharpness=1.0)
        asked = {"forbid": (PAD, SOS, MASK, UNK)}
        settled = {"length_penalty": 1.0, "max_length": 3}
        ((best,),) = search_exhaustive(model, model.memory, 1, DecodeConfig(**settled), **asked)
        for beam in (1, 2, 4, 40):
            ((found,),) = search(model, model.memory, 1, DecodeConfig(beam=beam, **settled), **asked)
            assert found.finished <= best.finished
            assert found.score <= best.score + 1e-9 or not found.finished
            right[beam] += found.tokens == best.tokens
    assert right[1] < right[2] < right[4] < right[40] == 200


def test_a_whole_text_comes_before_one_that_the_limit_cut(table_model: Any) -> None:
    table = {(): {YES: 0.99, EOS: 0.01}, (YES,): {YES: 1.0}}
    model = table_model(table, vocabulary=7)
    (found,) = search(model, None, 1, DecodeConfig(beam=2, n_best=2, max_length=2))
    assert [(one.tokens, one.finished) for one in found] == [((), True), ((YES, YES), False)]
    assert found[0].score < found[1].score


def test_exhaustive_search_refuses_what_would_take_too_long(random_model: Any) -> None:
    model = random_model()
    with pytest.raises(ConfigError, match="8 tokens and 20 steps make too many texts"):
        search_exhaustive(model, model.memory, 1, DecodeConfig(max_length=20))
