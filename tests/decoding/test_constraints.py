"""Forbidden and required phrases, against exhaustive search over all texts with a filter."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from weft.decoding import NEVER, Constraint, DecodeConfig, Hypothesis, search, search_exhaustive
from weft.decoding.automaton import Automaton
from weft.decoding.constraints import contains
from weft.decoding.required import share_places
from weft.errors import ConfigError
from weft.text import EOS, SOS, UNK

AGAIN = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
FORBID = (*NEVER, UNK)
TOKENS = st.integers(5, 7)
PHRASES = st.lists(st.lists(TOKENS, min_size=1, max_size=3).map(tuple), max_size=2).map(tuple)
WAYS = st.lists(st.lists(TOKENS, min_size=1, max_size=2).map(tuple), min_size=1, max_size=2).map(tuple)
CONSTRAINTS = st.builds(Constraint, forbid=PHRASES, require=st.lists(WAYS, max_size=2).map(tuple))


def same(found: list[Hypothesis], expected: list[Hypothesis]) -> None:
    columns = [[(one.tokens, one.finished, one.missing) for one in rows] for rows in (found, expected)]
    assert columns[0] == columns[1]
    assert [one.score for one in found] == pytest.approx([one.score for one in expected])


@given(phrases=st.lists(st.lists(TOKENS, min_size=1, max_size=4).map(tuple), max_size=4), text=st.lists(TOKENS))
def test_the_automaton_knows_how_far_every_phrase_has_come(phrases: list[tuple[int, ...]], text: list[int]) -> None:
    automaton = Automaton(phrases)
    node = automaton.read_all(text)
    ends = [tuple(text[first:]) for first in range(len(text) + 1)]
    expected = [max(len(end) for end in ends if phrase[: len(end)] == end) for phrase in phrases]
    assert list(automaton.reached(node)) == expected
    completing = {phrase[-1] for phrase in phrases if phrase[:-1] in ends}
    assert automaton.completing(node) == tuple(sorted(completing))


@given(
    seed=st.integers(0, 10_000), penalty=st.sampled_from([0.0, 1.0]), constraints=st.tuples(CONSTRAINTS, CONSTRAINTS)
)
@AGAIN
def test_a_beam_that_keeps_everything_finds_the_best_text_that_obeys(
    random_model: Any, seed: int, penalty: float, constraints: tuple[Constraint, ...]
) -> None:
    model = random_model(seed=seed, sentences=2)
    config = DecodeConfig(beam=121, n_best=3, length_penalty=penalty, max_length=4)
    asked = {"prefixes": [[], [5, 6]], "limits": [4, 3], "forbid": FORBID, "constraints": constraints}
    found = search(model, model.memory, 2, config, **asked)
    expected = search_exhaustive(model, model.memory, 2, config, **asked)
    for sentence in range(2):
        same(found[sentence], expected[sentence])


@pytest.mark.parametrize("kind", [{"beam": 1}, {"beam": 3}, {"beam": 4, "groups": 2}, {"sample": True}], ids=str)
@given(seed=st.integers(0, 1000), forbidden=PHRASES)
@AGAIN
def test_no_search_says_what_is_forbidden(
    random_model: Any, kind: dict[str, Any], seed: int, forbidden: tuple[tuple[int, ...], ...]
) -> None:
    model = random_model(seed=seed, sentences=2, sharpness=1.0)
    free, bound = Constraint(), Constraint(forbid=forbidden)
    config = DecodeConfig(max_length=8, min_length=4, **kind)
    found = search(model, model.memory, 2, config, constraints=[bound, free])
    for one in found[0]:
        assert not any(contains(one.tokens, phrase) for phrase in forbidden)
    unbound = search(model, model.memory, 2, config)
    assert [one.tokens for one in found[1]] == [one.tokens for one in unbound[1]], "the neighbour is free"
    if not any(contains(one.tokens, phrase) for one in unbound[0] for phrase in forbidden) and kind == {"beam": 1}:
        assert found[0][0].tokens == unbound[0][0].tokens


@given(seed=st.integers(0, 10_000), beam=st.integers(2, 6), data=st.data())
@AGAIN
def test_every_beam_says_what_is_required(random_model: Any, seed: int, beam: int, data: st.DataObject) -> None:
    """Any width, as soon as the limit allows for the phrases: here six tokens at most."""
    model = random_model(seed=seed, sentences=3)
    phrase = st.lists(st.integers(5, 7), min_size=1, max_size=3).map(tuple)
    phrases = data.draw(st.lists(phrase, min_size=1, max_size=2))
    constraint = Constraint(require=tuple((phrase,) for phrase in phrases))
    limit = data.draw(st.integers(sum(map(len, phrases)), 8))
    asked = {"limits": [limit] * 3, "constraints": [constraint] * 3}
    for found in search(model, model.memory, 3, DecodeConfig(beam=beam, max_length=8), **asked):
        assert all(contains(found[0].tokens, phrase) for phrase in phrases)
        assert found[0].missing == ()


def test_required_phrases_are_a_matter_of_each_sentence(random_model: Any) -> None:
    model = random_model(seed=1, sentences=4)
    constraints = [
        Constraint(require=(((5, 6),),)),
        Constraint(),
        Constraint(forbid=((5,),)),
        Constraint(require=(((7,),), ((6, 6),))),
    ]
    config = DecodeConfig(beam=4, n_best=2, max_length=9)
    together = search(model, model.memory, 4, config, constraints=constraints)
    for sentence, constraint in enumerate(constraints):
        alone = search(model, model.memory[[sentence]], 1, config, constraints=[constraint])
        same(together[sentence], alone[0])
    plain = search(model, model.memory, 4, config)
    same(together[1], plain[1])


def test_what_the_limit_leaves_no_room_for_is_told(random_model: Any) -> None:
    model = random_model(seed=3, sentences=1)
    constraint = Constraint(require=(((5, 6),), ((7, 7),)))
    config = DecodeConfig(beam=6, max_length=3)
    ((found,),) = search(model, model.memory, 1, config, constraints=[constraint])
    assert not found.finished
    assert len(found.missing) == 1


def test_a_phrase_may_be_bound_to_the_beginning(random_model: Any) -> None:
    model = random_model(seed=3, sentences=2)
    config = DecodeConfig(beam=200, max_length=4)
    first = Constraint(forbid=((SOS, EOS), (SOS, 5)), require=(((SOS, 6), (7, 7)),))
    asked = {"forbid": FORBID, "constraints": [first, first]}
    found = search(model, model.memory, 2, config, **asked)
    expected = search_exhaustive(model, model.memory, 2, config, **asked)
    for sentence in range(2):
        same(found[sentence], expected[sentence])
        tokens = found[sentence][0].tokens
        assert tokens[0] == 6 or contains(tokens, (7, 7))


def test_a_forbidden_phrase_may_begin_in_the_prefix(table_model: Any) -> None:
    model = table_model({(5,): {6: 0.9, 7: 0.1}}, vocabulary=8)
    constraint = Constraint(forbid=((5, 6),))
    for config in (DecodeConfig(beam=1), DecodeConfig(beam=3), DecodeConfig(sample=True)):
        (found,) = search(model, None, 1, config, prefixes=[[5]], constraints=[constraint])
        assert found[0].tokens == (7,)


def test_places_are_shared_among_the_banks() -> None:
    assert share_places(6, [9, 9, 9]) == [2, 2, 2]
    assert share_places(7, [9, 9, 9]) == [2, 2, 3]
    assert share_places(6, [9, 1, 0]) == [5, 1, 0]
    assert share_places(5, [9, 9, 0, 0]) == [2, 3, 0, 0]
    assert share_places(2, [9, 3, 0, 0]) == [1, 1, 0, 0]
    assert share_places(1, [9, 3, 0]) == [0, 1, 0]
    for width, sizes in itertools.product(range(1, 8), itertools.product(range(4), repeat=3)):
        assert sum(share_places(width, list(sizes))) == min(width, sum(sizes))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"beam": 1}, "needs a beam of at least 2, not beam = 1 .raise beam."),
        ({"sample": True}, "needs beam search, not sample = true .remove sample."),
        ({"beam": 4, "groups": 2}, "needs one beam, not groups = 2 .groups = 1."),
    ],
    ids=str,
)
def test_only_a_beam_can_be_made_to_say_something(random_model: Any, config: dict[str, Any], message: str) -> None:
    model = random_model()
    with pytest.raises(ConfigError, match=message):
        search(model, model.memory, 1, DecodeConfig(**config), constraints=[Constraint(require=(((5,),),))])


def test_mistakes_are_named(random_model: Any) -> None:
    model = random_model()
    with pytest.raises(ConfigError, match="constraints: 1 are given for 3 sentences"):
        search(model, model.memory, 3, DecodeConfig(), constraints=[Constraint()])
    with pytest.raises(ConfigError, match="a phrase has no tokens"):
        Constraint(forbid=((),))
    with pytest.raises(ConfigError, match="a phrase has no tokens"):
        Constraint(require=((),))
