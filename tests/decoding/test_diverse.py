"""Diverse beams: against a plain version, and what they promise."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from weft.decoding import DecodeConfig, Hypothesis, search
from weft.text import EOS, MASK, PAD, SOS

AGAIN = settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])


class Text(NamedTuple):
    """One text of the plain version."""

    tokens: tuple[int, ...]
    total: float
    state: Any


class Group:
    """One group of the plain version: a beam search in lists."""

    def __init__(self, start: Text, width: int, config: DecodeConfig) -> None:
        self.living, self.ended, self.width, self.config = [start], [], width, config
        self.stopped = False

    def step(self, model: Any, chosen: Counter[int], length: int) -> list[int]:
        """Choose continuations, penalised by what was chosen before; gives the tokens."""
        options = []
        for text in self.living:
            last = torch.tensor([text.tokens[-1] if text.tokens else SOS])
            logits, state, _ = model.step(last, text.state)
            for token, log in enumerate(logits.log_softmax(-1)[0].tolist()):
                if token not in (PAD, SOS, MASK):
                    rank = text.total + log - self.config.diversity * chosen[token]
                    options.append((rank, Text((*text.tokens, token), text.total + log, state)))
        ranked = [text for _, text in sorted(options, key=lambda option: -option[0])]
        ends = [text for text in ranked[: self.width] if text.tokens[-1] == EOS]
        self.ended += [(text.total / length**self.config.length_penalty, text) for text in ends]
        self.ended = sorted(self.ended, key=lambda one: -one[0])
        self.living = [text for text in ranked if text.tokens[-1] != EOS][: self.width]
        if self.width == 1 and ends:
            self.living = []
        self.stopped = not self.living or self.is_done()
        return [text.tokens[-1] for text in (*self.living, *ends)]

    def is_done(self) -> bool:
        if self.config.stop == "finished":
            return len(self.ended) >= self.width
        kept = min(self.config.n_best, self.width)
        best = max(text.total for text in self.living) / self.config.max_length**self.config.length_penalty
        return len(self.ended) >= kept and best <= self.ended[kept - 1][0]

    def texts(self) -> list[tuple[tuple[int, ...], bool, float]]:
        kept = min(self.config.n_best, self.width)
        cut = [(text.total / len(text.tokens) ** self.config.length_penalty, text) for text in self.living]
        rows = [(text.tokens[:-1], True, score) for score, text in self.ended[:kept]]
        return rows + [(text.tokens, False, score) for score, text in cut][: kept - len(rows)]


def plain_version(model: Any, sentence: int, config: DecodeConfig) -> list[tuple[tuple[int, ...], bool, float]]:
    width = config.beam // config.groups
    start = Text((), 0.0, model.start(model.memory, torch.tensor([sentence])))
    groups = [Group(start, width, config) for _ in range(config.groups)]
    for length in range(1, config.max_length + 1):
        chosen: Counter[int] = Counter()
        for group in groups:
            if not group.stopped:
                chosen.update(group.step(model, chosen, length))
    distinct = {row[:2]: row for group in groups for row in group.texts()}
    return sorted(distinct.values(), key=lambda row: (not row[1], -row[2]))[: config.n_best]


def rows(found: list[Hypothesis]) -> list[tuple[tuple[int, ...], bool]]:
    return [(one.tokens, one.finished) for one in found]


@given(
    seed=st.integers(0, 10_000),
    sizes=st.sampled_from([(2, 2), (4, 2), (6, 2), (6, 3), (4, 4)]),
    diversity=st.sampled_from([0.0, 0.3, 1.0, 5.0]),
    penalty=st.sampled_from([0.0, 1.0]),
    stop=st.sampled_from(["bound", "finished"]),
    data=st.data(),
)
@AGAIN
def test_search_finds_what_the_plain_version_finds(
    random_model: Any, seed: int, sizes: tuple[int, int], diversity: float, penalty: float, stop: Any, data: Any
) -> None:
    model = random_model(seed=seed, sentences=3, sharpness=1.0)
    beam, groups = sizes
    n_best = data.draw(st.integers(1, beam))
    config = DecodeConfig(
        beam=beam, groups=groups, diversity=diversity, n_best=n_best, length_penalty=penalty, stop=stop, max_length=6
    )
    for sentence, found in enumerate(search(model, model.memory, 3, config)):
        expected = plain_version(model, sentence, config)
        assert rows(found) == [row[:2] for row in expected]
        assert [one.score for one in found] == pytest.approx([row[2] for row in expected])


@given(seed=st.integers(0, 10_000))
@AGAIN
def test_without_a_penalty_every_group_is_the_plain_beam(random_model: Any, seed: int) -> None:
    model = random_model(seed=seed, sentences=2)
    groups = DecodeConfig(beam=6, groups=3, diversity=0.0, n_best=2, max_length=6)
    alone = DecodeConfig(beam=2, n_best=2, max_length=6)
    for found, expected in zip(
        search(model, model.memory, 2, groups), search(model, model.memory, 2, alone), strict=True
    ):
        assert rows(found) == rows(expected)
        assert [one.path for one in found] == [one.path for one in expected]


def test_a_high_penalty_makes_every_group_begin_differently(random_model: Any) -> None:
    model = random_model(seed=4, sentences=5)
    config = DecodeConfig(beam=4, groups=4, diversity=100.0, n_best=4, max_length=5, min_length=1)
    for found in search(model, model.memory, 5, config):
        assert len({one.tokens[0] for one in found}) == 4


def test_scores_stay_the_models_own(random_model: Any) -> None:
    model = random_model(seed=4, sentences=1)
    config = DecodeConfig(beam=4, groups=2, diversity=2.0, n_best=4, max_length=5)
    for one in search(model, model.memory, 1, config)[0]:
        state, last = model.start(model.memory, torch.tensor([0])), SOS
        for token, log in zip((*one.tokens, EOS), one.log_probabilities, strict=False):
            logits, state, _ = model.step(torch.tensor([last]), state)
            assert log == pytest.approx(logits.log_softmax(-1)[0, token].item())
            last = token
