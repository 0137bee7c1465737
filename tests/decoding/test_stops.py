"""Stop strings: a text ends with the token that completes one, in every search, as the oracle finds by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from weft.decoding import Constraint, DecodeConfig, StopStrings, search, search_exhaustive, stream
from weft.decoding.stops import STOPS, cut_text
from weft.errors import ConfigError
from weft.tasks.streaming import UntilStop
from weft.text import EOS, MASK, PAD, SOS, UNK
from weft.text.spelling import TokenSpelling

A, AB, B_ = 5, 6, 7
PIECES = [b"", b"?", b"", b"", b"<mask>", b"a", b"ab", b"b "]
SPELLING = TokenSpelling((PIECES,), [None] * len(PIECES))
AGAIN = settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
NEVER = (PAD, SOS, MASK, UNK)


def stops(*strings: str) -> dict[str, Any]:
    return {"stops": StopStrings(strings, SPELLING)}


@pytest.mark.covers("D7")
def test_a_string_is_found_across_the_borders_of_tokens(table_model: Any) -> None:
    """ "aab b " by the tokens a, ab, "b ": "bb" ends with the third, whose blank is written too."""
    model = table_model({(): {A: 1.0}, (A,): {AB: 1.0}, (A, AB): {B_: 1.0}, (A, AB, B_): {A: 1.0}}, vocabulary=8)
    for config in ({"beam": 1}, {"beam": 2}, {"sample": True}):
        ((found,),) = search(model, None, 1, DecodeConfig(stop_at=["bb"], **config), **stops("bb"))
        assert (found.tokens, found.finished, found.stopped) == ((A, AB, B_), True, True)
        assert found.log_probabilities == pytest.approx([0.0, 0.0, 0.0], abs=1e-6), "there is no end token"


def test_the_table_is_what_reading_all_bytes_finds() -> None:
    """For every text of up to three tokens and every next token: the string is complete where the bytes have it."""
    strings = ("ab", "b a", "aa")
    made = StopStrings(strings, SPELLING)
    table = made.table.tolist()

    def walk(said: tuple[int, ...], node: int) -> None:
        for token in range(4, 8):
            assert (table[node][token] == STOPS) == made.stops((*said, token), ())
            if len(said) < 3 and table[node][token] != STOPS:
                walk((*said, token), table[node][token])

    walk((), made.start(()))


@pytest.mark.covers("D7")
@given(seed=st.integers(0, 10_000), n_best=st.integers(1, 6), data=st.data())
@AGAIN
def test_a_beam_that_keeps_everything_is_exhaustive(
    random_model: Any, seed: int, n_best: int, data: st.DataObject
) -> None:
    model = random_model(seed=seed, sentences=2)
    strings = data.draw(st.lists(st.sampled_from(["b", "aa", "ab b", "bab", "a"]), min_size=1, max_size=2, unique=True))
    prefixes = data.draw(st.lists(st.lists(st.integers(5, 7), max_size=2), min_size=2, max_size=2))
    config = DecodeConfig(
        beam=121,
        n_best=n_best,
        stop_at=strings,
        max_length=4,
        min_length=data.draw(st.integers(0, 2)),
        repetition_penalty=data.draw(st.sampled_from([1.0, 1.5])),
    )
    constraint = Constraint(forbid=data.draw(st.sampled_from([(), ((A, A),), ((EOS,),)])))
    asked: dict[str, Any] = {"prefixes": prefixes, "forbid": NEVER, "constraints": [constraint] * 2} | stops(*strings)
    found = search(model, model.memory, 2, config, **asked)
    expected = search_exhaustive(model, model.memory, 2, config, **asked)
    for ours, oracle in zip(found, expected, strict=True):
        assert [(one.tokens, one.finished, one.stopped) for one in ours] == [
            (one.tokens, one.finished, one.stopped) for one in oracle
        ]
        assert [one.score for one in ours] == pytest.approx([one.score for one in oracle])


SEARCHES: list[dict[str, Any]] = [
    {"beam": 1},
    {"beam": 3, "n_best": 3},
    {"beam": 4, "groups": 2, "n_best": 2},
    {"sample": True, "n_best": 3},
    {"beam": 3, "repetition_penalty": 1.3, "frequency_penalty": 0.5, "presence_penalty": 0.2},
    {"sample": True, "repetition_penalty": 1.3, "frequency_penalty": 0.5},
]


@pytest.mark.covers("D7")
@pytest.mark.parametrize("config", SEARCHES, ids=str)
def test_a_sentence_does_not_depend_on_the_others(random_model: Any, config: dict[str, Any]) -> None:
    model = random_model(seed=3, sentences=5, sharpness=1.0)
    chosen, asked = DecodeConfig(max_length=9, stop_at=["a", "b b"], **config), stops("a", "b b")
    prefixes = [(), (A,), (AB, A), (), (B_,)]
    together = search(model, model.memory, 5, chosen, prefixes=prefixes, keys=range(5), **asked)
    assert any(one.stopped for found in together for one in found)
    for number in range(5):
        (alone,) = search(
            model, model.memory[number : number + 1], 1, chosen, prefixes=[prefixes[number]], keys=[number], **asked
        )
        assert [one.tokens for one in alone] == [one.tokens for one in together[number]]
        for one in alone:
            assert not StopStrings(chosen.stop_at, SPELLING).stops(one.tokens[:-1], prefixes[number])
            assert one.attention is not None
            assert len(one.attention) == len(one.path) == len(one.log_probabilities)


@pytest.mark.parametrize("config", [{"beam": 1}, {"beam": 3}, {"sample": True, "seed": 2}], ids=str)
def test_a_stream_is_the_text_of_the_search(random_model: Any, config: dict[str, Any]) -> None:
    for seed in range(6):
        model = random_model(seed=seed, sentences=1, sharpness=1.0)
        chosen, asked = DecodeConfig(max_length=9, stop_at=["ab"], **config), stops("ab")
        ((whole, *_),) = search(model, model.memory, 1, chosen, keys=[0], **asked)
        pieces = list(stream(model, model.memory, chosen, key=0, **asked))
        assert tuple(token for piece in pieces for token in piece) == whole.tokens


def test_required_phrases_come_before_a_stop_string(random_model: Any) -> None:
    need = Constraint(require=(((B_,),),))
    for seed in range(4):
        model = random_model(seed=seed, sentences=1)
        config = DecodeConfig(beam=4, stop_at=["a"], max_length=6)
        ((found,),) = search(model, model.memory, 1, config, constraints=[need], **stops("a"))
        assert B_ in found.tokens
        assert not found.missing
        assert not StopStrings(["a"], SPELLING).stops(found.tokens[: found.tokens.index(B_)], ())


def test_the_text_of_tokens_is_needed(table_model: Any) -> None:
    model = table_model({}, vocabulary=8)
    with pytest.raises(ConfigError, match=r"stop_at.*needs the text of each token"):
        search(model, None, 1, DecodeConfig(stop_at=["b"]))


def test_the_first_string_cuts_the_text() -> None:
    assert cut_text("one two two", ["two", "ne"]) == ("o", "ne")
    assert cut_text("one two two", ["two", "ne"], start=5) == ("one two ", "two")
    assert cut_text("abc", ["b", "bc"]) == ("a", "bc")
    assert cut_text("abc", ["x"]) == ("abc", None)


@given(text=st.text("ab", max_size=12), sizes=st.lists(st.integers(1, 4), max_size=12), before=st.integers(0, 3))
def test_text_in_pieces_is_cut_where_the_whole_is(text: str, sizes: list[int], before: int) -> None:
    strings = ["abb", "bab"]
    until, found, place = UntilStop(strings, before=before), "", 0
    for size in [*sizes, len(text) + 1]:
        found += until.add(text[place : place + size])
        assert (text[:before] + cut_text(text[before:], strings)[0]).startswith(found)
        place += size
    assert found + until.finish() == text[:before] + cut_text(text[before:], strings)[0]


@pytest.mark.covers("D3", "D7")
@pytest.mark.parametrize(("finished", "steps"), [(1, 1), (2, 2), (5, 5)])
def test_as_many_finished_hypotheses_as_are_wanted_end_a_sentence(table_model: Any, finished: int, steps: int) -> None:
    model = table_model({(A,) * said: {A: 0.6, EOS: 0.4} for said in range(50)}, vocabulary=8)
    config = DecodeConfig(beam=3, max_length=50, stop="finished", finished=finished)
    search(model, None, 1, config)
    assert len(model.rows_seen) == steps, "one text ends at each step"


def test_settings_that_do_not_go_together() -> None:
    for wrong, match in (
        ({"finished": 2}, "only acts with stop"),
        ({"finished": 2, "stop": "finished", "beam": 1}, "greedy search"),
        ({"finished": 2, "stop": "finished", "n_best": 3}, "less than n_best"),
        ({"stop_at": [""]}, "at least 1"),
        ({"stop_at": ["a" * 300]}, "256 is the limit"),
        ({"repetition_penalty": 0.0}, "greater than"),
    ):
        with pytest.raises(Exception, match=match):
            DecodeConfig(**wrong)
    assert DecodeConfig(stop_at="end").stop_at == ["end"]  # type: ignore[arg-type]
    assert torch.equal(StopStrings(["b"], SPELLING).table[0], StopStrings(["b", "b"], SPELLING).table[0])
