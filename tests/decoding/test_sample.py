"""Sampling: the laws of temperature, top-k and top-p, and its seed."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from weft.decoding import DecodeConfig, search
from weft.decoding.sample import draw, reshape
from weft.text import EOS, SOS

SHARES = [0.1, 0.4, 0.2, 0.3]


def settled(**options: Any) -> DecodeConfig:
    return DecodeConfig(sample=True, **options)


def distribution(shares: list[float], config: DecodeConfig) -> list[float]:
    """The chances that the reshaped distribution gives to each token."""
    given, tokens = reshape(torch.tensor([shares]).log(), config)
    result = torch.zeros(len(shares), dtype=torch.float64).scatter(0, tokens[0], given[0] / given.sum())
    return result.tolist()


@pytest.mark.covers("D2")
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, SHARES),
        ({"top_k": 2}, [0, 4 / 7, 0, 3 / 7]),
        ({"top_k": 9}, SHARES),
        ({"top_p": 0.69}, [0, 4 / 7, 0, 3 / 7]),
        ({"top_p": 0.71}, [0, 4 / 9, 2 / 9, 3 / 9]),
        ({"top_p": 0.01}, [0, 1, 0, 0]),
        ({"temperature": 0.5}, [share**2 / 0.3 for share in SHARES]),
        ({"temperature": 0.5, "top_p": 0.6}, [0, 16 / 25, 0, 9 / 25]),
        ({"top_k": 3, "top_p": 0.7}, [0, 4 / 7, 0, 3 / 7]),
    ],
    ids=str,
)
def test_shares_by_hand(options: dict[str, Any], expected: list[float]) -> None:
    assert distribution(SHARES, settled(**options)) == pytest.approx(expected, abs=1e-6)


@given(
    weights=st.lists(st.integers(0, 50), min_size=2, max_size=12).filter(any),
    uniform=st.floats(0, 1, exclude_max=True, width=32),
    top_k=st.integers(0, 12),
    top_p=st.floats(0.05, 1.0),
    temperature=st.floats(0.1, 5.0),
)
@settings(deadline=None)
def test_what_is_drawn_is_among_the_likeliest(
    weights: list[int], uniform: float, top_k: int, top_p: float, temperature: float
) -> None:
    config = settled(top_k=top_k, top_p=top_p, temperature=temperature)
    logs = torch.tensor([weights], dtype=torch.float64).log().log_softmax(-1)
    token = int(draw(logs, torch.tensor([uniform], dtype=torch.float64), config))
    assert weights[token] > 0
    better = [weight for weight in weights if weight > weights[token]]
    assert len(better) < (top_k or len(weights))
    powers = [weight ** (1 / temperature) for weight in weights]
    if not top_k:
        assert sum(weight ** (1 / temperature) for weight in better) < top_p * sum(powers) * (1 + 1e-9)


@pytest.mark.covers("D2")
def test_draws_follow_the_distribution(table_model: Any) -> None:
    """4000 texts of one token: each frequency within five standard errors of its probability."""
    model = table_model({(): {5: 0.5, 6: 0.3, EOS: 0.2}}, vocabulary=7)
    (found,) = search(model, None, 1, settled(n_best=4000, max_length=2, seed=1))
    counts = Counter(one.tokens for one in found)
    for tokens, probability in (((5,), 0.5), ((6,), 0.3), ((), 0.2)):
        error = math.sqrt(probability * (1 - probability) / 4000)
        assert abs(counts[tokens] / 4000 - probability) < 5 * error


def test_uniform_numbers_cut_the_distribution_in_order() -> None:
    logs = torch.tensor([SHARES]).log().expand(5, -1)
    uniforms = torch.tensor([0.0, 0.099, 0.101, 0.5001, 0.9999], dtype=torch.float64)
    assert draw(logs, uniforms, settled()).tolist() == [0, 0, 1, 2, 3]


def test_the_seed_the_key_and_the_number_make_the_text(random_model: Any) -> None:
    model = random_model(seed=1, sentences=1, sharpness=0.5)
    memory: Tensor = model.memory.expand(3, -1, -1)

    def texts(seed: int, keys: list[int]) -> list[list[tuple[int, ...]]]:
        found = search(model, memory, 3, settled(n_best=2, max_length=12, seed=seed), keys=keys)
        return [sorted(one.tokens for one in own) for own in found]

    one = texts(0, [0, 1, 2])
    assert one == texts(0, [0, 1, 2])
    assert one[0] != one[1]
    assert one[0][0] != one[0][1]
    assert texts(0, [2, 1, 0]) == one[::-1]
    assert texts(1, [0, 1, 2]) != one


def test_log_probabilities_are_the_models_whatever_reshapes_the_draw(random_model: Any) -> None:
    model = random_model(seed=1, sentences=1)
    ((found,),) = search(model, model.memory, 1, settled(temperature=3.0, top_k=3, max_length=1))
    logits, _, _ = model.step(torch.tensor([SOS]), model.start(model.memory, torch.tensor([0])))
    token = found.tokens[0] if found.tokens else EOS
    assert_close(torch.tensor(found.log_probabilities[0]), logits.log_softmax(-1)[0, token].float())


def test_top_k_of_one_is_greedy(random_model: Any) -> None:
    model = random_model(seed=9, sentences=3)
    drawn = search(model, model.memory, 3, settled(top_k=1, max_length=9))
    greedy = search(model, model.memory, 3, DecodeConfig(beam=1, max_length=9))
    assert [one.tokens for (one,) in drawn] == [one.tokens for (one,) in greedy]


def test_equally_likely_tokens_are_ordered_by_their_numbers():
    logs = torch.tensor([[0.1, 0.2, 0.1, 0.2, 0.1, 0.2, 0.1]]).repeat(1, 30).log_softmax(-1)
    _, tokens = reshape(logs, DecodeConfig(sample=True, top_p=0.9))
    likely = [place for place in range(logs.size(1)) if place % 7 % 2]
    assert tokens[0].tolist() == likely + [place for place in range(logs.size(1)) if not place % 7 % 2]
