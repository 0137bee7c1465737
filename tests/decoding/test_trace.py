"""What a listener hears of a search: every step as the search made it, and no change of its result."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from weft.decoding import DecodeConfig, SearchTrace, search
from weft.errors import ConfigError
from weft.inspect.search_tree import grow_tree
from weft.text import EOS

AGAIN = settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])


@st.composite
def configs(draw: st.DrawFn) -> DecodeConfig:
    groups = draw(st.sampled_from([1, 1, 2]))
    return DecodeConfig(
        beam=groups * draw(st.integers(1, 4)),
        groups=groups,
        length_penalty=draw(st.sampled_from([0.0, 1.0, 2.0])),
        max_length=draw(st.integers(1, 8)),
        min_length=draw(st.integers(0, 1)),
        stop=draw(st.sampled_from(["bound", "finished"])),
        repetition_penalty=draw(st.sampled_from([1.0, 1.0, 1.5])),
    )


@pytest.mark.covers("I4")
@given(seed=st.integers(0, 10_000), config=configs(), prefix=st.lists(st.integers(5, 7), max_size=2))
@AGAIN
def test_a_tree_is_the_search_and_a_listener_changes_nothing(
    random_model: Any, seed: int, config: DecodeConfig, prefix: list[int]
) -> None:
    model = random_model(seed=seed, sentences=1)
    (alone,) = search(model, model.memory, 1, config, prefixes=[prefix])
    trace = SearchTrace(candidates=2)
    (found,) = search(model, model.memory, 1, config, prefixes=[prefix], listener=trace)
    assert [one[:4] for one in found] == [one[:4] for one in alone]

    tree = grow_tree(trace, lambda tokens: [str(token) for token in tokens])
    assert tree.steps == len(trace.steps) <= config.max_length
    for node in tree.nodes[1:]:
        path = tree.path(node.number)
        assert len(path) == node.step
        assert math.fsum(one.log_probability for one in path) == pytest.approx(node.sum)
        if not config.penalises:
            assert node.ranked == pytest.approx(node.sum)
        assert tree.nodes[node.parent].state in ("start", "kept")
        assert node.until <= tree.steps
    for step, groups in enumerate(trace.steps, start=1):
        for group in groups:
            nodes = [one for one in tree.nodes if (one.step, one.group) == (step, group.group) and one.number]
            kept = [one for one in nodes if one.state == "kept"]
            assert len(kept) == sum(one is not None for one in group.kept) <= config.width
            assert [one.token for one in kept] == [one.token for one in group.kept if one is not None]
            assert sum(one.state == "finished" for one in nodes) == len(group.ended) <= config.width
            assert not {(one.parent, one.token) for one in kept} & {
                (one.parent, one.token) for one in nodes if one.state == "dropped"
            }
    ends = {tuple(one.token for one in tree.path(node.number)) for node in tree.nodes if node.state == "finished"}
    assert all((*one.tokens, EOS) in ends for one in found if one.finished)


@pytest.mark.covers("I4")
@given(seed=st.integers(0, 10_000), beam=st.integers(1, 4))
@AGAIN
def test_what_is_dropped_is_no_better_than_what_is_kept(random_model: Any, seed: int, beam: int) -> None:
    model = random_model(seed=seed, sentences=1)
    trace = SearchTrace(candidates=3)
    search(model, model.memory, 1, DecodeConfig(beam=beam, max_length=6), listener=trace)
    for (step,) in trace.steps:
        kept = [one.sum for one in step.kept if one is not None]
        others = [one.sum for one in step.dropped if one.token != EOS]
        assert kept == sorted(kept, reverse=True)
        assert [one.sum for one in step.dropped] == sorted((one.sum for one in step.dropped), reverse=True)
        assert not kept or not others or max(others) <= min(kept)


def test_a_listener_follows_one_beam_search(random_model: Any) -> None:
    model = random_model(sentences=2)
    with pytest.raises(ConfigError, match="2 sentences"):
        search(model, model.memory, 2, DecodeConfig(), listener=SearchTrace())
    with pytest.raises(ConfigError, match="sampling has no beam"):
        search(model, model.memory[:1], 1, DecodeConfig(sample=True), listener=SearchTrace())
