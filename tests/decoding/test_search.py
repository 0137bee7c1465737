"""What every kind of search owes its caller."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close

from weft.decoding import DecodeConfig, Hypothesis, search
from weft.errors import ConfigError
from weft.models import RecurrentLanguageConfig, build_language_model
from weft.nn import Cell, State
from weft.text import EOS, MASK, PAD, SOS, UNK

KINDS = {
    "greedy": DecodeConfig(beam=1, max_length=9),
    "beam": DecodeConfig(beam=3, n_best=2, max_length=9),
    "finished": DecodeConfig(beam=3, n_best=2, max_length=9, stop="finished"),
    "diverse": DecodeConfig(beam=4, groups=2, diversity=5.0, n_best=2, max_length=9),
    "sample": DecodeConfig(sample=True, n_best=2, max_length=9),
}
AGAIN = settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(params=KINDS)
def config(request: pytest.FixtureRequest) -> DecodeConfig:
    return KINDS[request.param]


def same(found: list[Hypothesis], expected: list[Hypothesis]) -> None:
    assert [(one.tokens, one.finished) for one in found] == [(one.tokens, one.finished) for one in expected]
    for one, other in zip(found, expected, strict=True):
        assert one.score == pytest.approx(other.score)
        assert one.log_probabilities == pytest.approx(other.log_probabilities)
        assert_close(one.attention, other.attention)


@pytest.mark.covers("D5")
@given(seed=st.integers(0, 1000), data=st.data())
@AGAIN
@pytest.mark.parametrize("kind", KINDS)
def test_a_sentence_alone_finds_what_it_finds_in_any_batch(
    random_model: Any, kind: str, seed: int, data: st.DataObject
) -> None:
    model = random_model(seed=seed, sentences=5)
    limits = data.draw(st.lists(st.integers(1, 9), min_size=5, max_size=5))
    prefixes = data.draw(st.lists(st.lists(st.integers(5, 7), max_size=3), min_size=5, max_size=5))
    order = data.draw(st.permutations(range(5)))

    def find(rows: list[int]) -> list[list[Hypothesis]]:
        own = {"prefixes": [prefixes[row] for row in rows], "limits": [limits[row] for row in rows], "keys": rows}
        return search(model, model.memory[rows], len(rows), KINDS[kind], **own)

    for row, found in zip(order, find(order), strict=True):
        same(found, find([row])[0])


def test_numbers_are_those_of_the_model(random_model: Any, config: DecodeConfig) -> None:
    """Every log-probability and every row of attention, found again by walking the model over the text."""
    model = random_model(seed=11, sentences=4)
    for row, found in enumerate(search(model, model.memory, 4, config)):
        assert len(found) == config.n_best
        for hypothesis in found:
            expected = [*hypothesis.tokens, *[EOS] * hypothesis.finished]
            assert len(expected) == len(hypothesis.log_probabilities) == len(hypothesis.attention)
            state, last = model.start(model.memory, torch.tensor([row])), SOS
            for token, log, attention in zip(expected, hypothesis.log_probabilities, hypothesis.attention, strict=True):
                logits, state, seen = model.step(torch.tensor([last]), state)
                assert log == pytest.approx(logits.log_softmax(-1)[0, token].item())
                assert_close(attention, seen[0])
                last = token
            mean = sum(hypothesis.log_probabilities) / len(hypothesis.log_probabilities)
            assert hypothesis.score == pytest.approx(mean)


def test_a_prefix_is_forced_and_does_not_count(random_model: Any, config: DecodeConfig) -> None:
    """Searching after a prefix equals searching in a model that has read it, its end token included."""
    model = random_model(seed=2, sentences=2)
    prefixes = [[5, EOS, 7], [6]]

    class After:
        def __init__(self, prefix: list[int]) -> None:
            self.prefix = prefix

        def start(self, memory: Any, rows: torch.Tensor) -> Any:
            state = model.start(memory, rows)
            for token in (SOS, *self.prefix[:-1]):
                _, state, _ = model.step(torch.full_like(rows, token), state)
            return state

        def step(self, tokens: torch.Tensor, state: Any) -> Any:
            return model.step(torch.where(tokens == SOS, self.prefix[-1], tokens), state)

    together = search(model, model.memory, 2, config, prefixes=prefixes, limits=[4, 9])
    for row, prefix in enumerate(prefixes):
        alone = search(After(prefix), model.memory[[row]], 1, config, limits=[(4, 9)[row]], keys=[row])
        same(together[row], alone[0])


def test_limits_and_shortest_lengths(random_model: Any, config: DecodeConfig) -> None:
    model = random_model(seed=5, sentences=6)
    short = config.model_copy(update={"max_length": 7, "min_length": 3})
    limits = [2, 7, 4, 1, 9, 3]
    for limit, found in zip(limits, search(model, model.memory, 6, short, limits=limits), strict=True):
        assert found
        for hypothesis in found:
            assert len(hypothesis.log_probabilities) <= min(limit, 7)
            if hypothesis.finished:
                assert len(hypothesis.tokens) >= 3
            else:
                assert len(hypothesis.tokens) == min(limit, 7)


def test_the_shortest_length_counts_tokens_before_the_end(table_model: Any, config: DecodeConfig) -> None:
    model = table_model({(5,) * said: {EOS: 0.999999, 5: 0.000001} for said in range(9)}, vocabulary=6)
    for least in (0, 1, 2):
        found = search(model, None, 1, config.model_copy(update={"min_length": least}))
        assert found[0][0].tokens == (5,) * least


def test_forbidden_tokens_never_come(random_model: Any, config: DecodeConfig) -> None:
    model = random_model(seed=3, sentences=6, sharpness=0.1)
    model.out.bias.data[[PAD, SOS, MASK]] += 50.0
    said = {token for found in search(model, model.memory, 6, config) for one in found for token in one.tokens}
    assert said
    assert not said & {PAD, SOS, MASK, EOS}
    model.out.bias.data[UNK] += 100.0
    assert (UNK,) * config.max_length in [one.tokens for one in search(model, model.memory, 1, config)[0]]
    fewer = search(model, model.memory, 1, config, forbid=(PAD, SOS, MASK, UNK))
    assert UNK not in fewer[0][0].tokens


@pytest.mark.parametrize(
    ("kind", "rows"),
    [
        ("greedy", [3, 2, 1, 1]),
        ("beam", [3 * 3, 2 * 3, 3, 3]),
        ("diverse", [3 * 4, 2 * 4, 4, 4]),
        ("sample", [3 * 2, 2 * 2, 2, 2]),
    ],
)
def test_finished_sentences_leave_the_batch(table_model: Any, kind: str, rows: list[int]) -> None:
    texts = [text for length in range(4) for text in itertools.product((5, 6), repeat=length)]
    model = table_model({text: {5: 0.6, 6: 0.4} for text in texts}, vocabulary=7)
    search(model, None, 3, KINDS[kind], limits=[1, 2, 4])
    assert model.rows_seen == rows


def test_nothing_that_may_follow_gives_nothing(table_model: Any, config: DecodeConfig) -> None:
    model = table_model({(): {EOS: 1.0}}, vocabulary=6)
    impossible = config.model_copy(update={"min_length": 2})
    assert search(model, None, 2, impossible) == [[], []]


def test_no_sentences(random_model: Any, config: DecodeConfig) -> None:
    model = random_model()
    assert search(model, model.memory[:0], 0, config) == []


def test_mistakes_are_named(random_model: Any) -> None:
    model = random_model()
    with pytest.raises(ConfigError, match="prefixes: 1 are given for 3 sentences"):
        search(model, model.memory, 3, DecodeConfig(), prefixes=[[5]])
    with pytest.raises(ConfigError, match="limits: a limit of 0 tokens is too low"):
        search(model, model.memory, 3, DecodeConfig(), limits=[3, 0, 1])
    with pytest.raises(ConfigError, match="keys: 2 are given for 3 sentences"):
        search(model, model.memory, 3, DecodeConfig(sample=True), keys=[1, 2])


def test_no_gradient_is_kept(random_model: Any, config: DecodeConfig) -> None:
    model = random_model()
    attention = search(model, model.memory, 1, config)[0][0].attention
    assert not attention.requires_grad


class Delayed(Cell):
    """h' = tanh(W x + h before the last): a step passes on a tensor of its state in another place of the new one."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.map = nn.Linear(input_size, hidden_size)

    def zero_state(self, batch: int, like: Tensor) -> State:
        return like.new_zeros(batch, self.hidden_size), like.new_zeros(batch, self.hidden_size)

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        h = torch.tanh(self.map(x) + state[1])
        return h, (h, state[0])


def test_a_state_may_move_within_itself(config: DecodeConfig) -> None:
    """Scores that a search found step by step, in buffers, are those of the full pass."""
    torch.manual_seed(1)
    settings = {"embedding": 16, "hidden": 16, "cell": "delayed"}
    chosen = RecurrentLanguageConfig.model_validate(settings, context={"cells": {"delayed": Delayed}})
    model: Any = build_language_model(chosen, 12).eval()
    nn.init.normal_(model.decoder.embedding.weight)
    for first, found in zip((5, 7), search(model, None, 2, config, prefixes=[[5], [7]], keys=[5, 7]), strict=True):
        for one in found:
            expected = [*one.tokens, *[EOS] * one.finished]
            with torch.no_grad():
                logits = model.output(model(torch.tensor([[SOS, first, *one.tokens]])))[0, 1:]
            scores = logits.log_softmax(-1)[range(len(expected)), expected]
            assert_close(torch.tensor(one.log_probabilities), scores)
