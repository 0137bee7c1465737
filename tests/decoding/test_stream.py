"""Tokens as they come are those of the whole search, and come as early as they can."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from weft.decoding import Constraint, DecodeConfig, search, stream
from weft.errors import ConfigError
from weft.text import EOS

AGAIN = settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
KINDS: dict[str, dict[str, Any]] = {
    "greedy": {"beam": 1},
    "beam": {"beam": 4},
    "n_best": {"beam": 4, "n_best": 3},
    "finished": {"beam": 3, "stop": "finished"},
    "diverse": {"beam": 4, "groups": 2},
    "sample": {"sample": True, "seed": 3},
}


@given(seed=st.integers(0, 10_000), prefix=st.lists(st.integers(5, 7), max_size=2), limit=st.integers(1, 9))
@AGAIN
@pytest.mark.parametrize("kind", KINDS)
def test_all_in_all_it_is_what_search_finds(
    random_model: Any, kind: str, seed: int, prefix: list[int], limit: int
) -> None:
    model = random_model(seed=seed, sentences=1)
    config = DecodeConfig(max_length=9, **KINDS[kind])
    pieces = list(stream(model, model.memory, config, prefix=prefix, limit=limit, key=7))
    ((best, *_),) = search(model, model.memory, 1, config, prefixes=[prefix], limits=[limit], keys=[7])
    assert all(pieces), "no piece is empty"
    assert tuple(token for piece in pieces for token in piece) == best.tokens


@pytest.mark.parametrize("kind", ["greedy", "sample"])
def test_a_token_a_step(random_model: Any, kind: str) -> None:
    model = random_model(seed=2, sentences=1)
    config = DecodeConfig(max_length=9, min_length=8, **KINDS[kind])
    pieces = stream(model, model.memory, config)
    asked: list[int] = []
    real, model.step = model.step, lambda tokens, state: asked.append(1) or real(tokens, state)
    for number, piece in enumerate(pieces, start=1):
        assert len(piece) == 1
        assert len(asked) == number


def test_a_beam_tells_what_cannot_change_any_more(table_model: Any) -> None:
    """5 is sure as soon as all go on from it; what follows is open until the end."""
    table = {(): {5: 0.8, 6: 0.2}, (5,): {6: 0.5, 7: 0.5}, (6,): {6: 0.5, 7: 0.5}}
    table |= {(5, 6): {6: 1.0}, (5, 7): {7: 1.0}, (5, 6, 6): {6: 0.5, 5: 0.5}, (5, 7, 7): {EOS: 1.0}}
    model = table_model(table, vocabulary=8)
    pieces = list(stream(model, None, DecodeConfig(beam=2, length_penalty=0.0, max_length=6)))
    assert pieces == [(5,), (7, 7)]


@given(seed=st.integers(0, 10_000))
@AGAIN
def test_under_constraints(random_model: Any, seed: int) -> None:
    model = random_model(seed=seed, sentences=1)
    constraint = Constraint(forbid=((5, 5),), require=(((6, 7),),))
    config = DecodeConfig(beam=4, max_length=7)
    said = [token for piece in stream(model, model.memory, config, constraint=constraint) for token in piece]
    ((best,),) = search(model, model.memory, 1, config, constraints=[constraint])
    assert tuple(said) == best.tokens


def test_who_reads_along_is_not_in_inference_mode(random_model: Any) -> None:
    model = random_model(sentences=1)
    for _ in stream(model, model.memory, DecodeConfig(beam=1, max_length=3)):
        assert not torch.is_inference_mode_enabled()


def test_several_drawn_texts_cannot_be_streamed_together(random_model: Any) -> None:
    model = random_model(sentences=1)
    with pytest.raises(ConfigError, match="n_best = 2 texts cannot be streamed together"):
        next(stream(model, model.memory, DecodeConfig(sample=True, n_best=2)))
