"""Attention: the worked example, the masks, and the fast path against its plain twin."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from weft.errors import ConfigError
from weft.nn import SCORES, attend, causal_mask, length_mask


def inputs(queries: int = 3, keys: int = 4, *, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shapes = ((2, queries, 5), (2, keys, 5), (2, keys, 6))
    q, k, v = (torch.randn(shape, generator=generator).requires_grad_() for shape in shapes)
    return q, k, v


@pytest.mark.covers("A9", "A10")
def test_the_worked_example() -> None:
    unit = torch.eye(3)
    key = 10 * unit[[0, 1, 2, 2]]
    value = torch.tensor([[1.0, 0, 0], [10, 0, 0], [100, 5, 0], [1000, 6, 0]])
    context, weights = attend(10 * unit[[1]], key, value, scale=1 / 8, weights=True)
    assert_close(weights[0], torch.tensor([3.7266e-06, 0.99999, 3.7266e-06, 3.7266e-06]), rtol=1e-4, atol=1e-10)
    assert_close(context, weights @ value)
    assert_close(attend(10 * unit[[1]], key, value, scale=1 / 8), context)


def masks() -> dict[str, Tensor | None]:
    fully_masked_row = torch.ones(2, 3, 4, dtype=torch.bool)
    fully_masked_row[1, 2] = False
    return {
        "none": None,
        "lengths": length_mask(torch.tensor([4, 2]), 4)[:, None],
        "a row of nothing": fully_masked_row,
        "an empty sentence": length_mask(torch.tensor([0, 3]), 4)[:, None],
    }


@pytest.mark.covers("A8", "A10")
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("mask", masks())
@pytest.mark.parametrize("options", [{}, {"score": "dot"}, {"scale": 0.3}, {"score": "dot", "scale": 0.3}], ids=str)
def test_fast_path_equals_plain_path(options: dict[str, Any], mask: str, causal: bool) -> None:
    both = []
    for weights in (False, True):
        q, k, v = inputs()
        result = attend(q, k, v, mask=masks()[mask], causal=causal, weights=weights, **options)
        context = result[0] if isinstance(result, tuple) else result
        context.square().sum().backward()
        both.append([context, q.grad, k.grad, v.grad])
    assert_close(*both)
    assert all(part.isfinite().all() for part in both[0])


@pytest.mark.covers("A3")
@pytest.mark.parametrize("score", SCORES)
def test_a_fully_masked_row_gives_zeros_and_no_gradient(score: str) -> None:
    module = SCORES[score](5, 5)
    q, k, v = inputs()
    mask = torch.ones(2, 3, 4, dtype=torch.bool)
    mask[0, 1] = False
    for weights in (False, True):
        result = attend(q, k, v, score=module, mask=mask, weights=weights)
        context = result[0] if isinstance(result, tuple) else result
        assert not context[0, 1].any()
        q.grad = None
        context.square().sum().backward()
        assert not q.grad[0, 1].any()
        assert q.grad.isfinite().all()
        assert q.grad[1].any()


@pytest.mark.covers("A3")
@given(
    queries=st.integers(1, 5),
    keys=st.integers(1, 5),
    lengths=st.tuples(st.integers(0, 5), st.integers(0, 5)),
    causal=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_weights_sum_to_one_or_to_nothing(queries: int, keys: int, lengths: tuple[int, int], causal: bool) -> None:
    q, k, v = inputs(queries, keys, seed=queries)
    mask = length_mask(torch.tensor(lengths), keys)[:, None]
    context, weights = attend(q, k, v, mask=mask, causal=causal, weights=True)
    may = (mask & causal_mask(queries, keys)) if causal else mask.expand_as(weights)
    assert not weights[~may].any()
    assert_close(weights.sum(-1), may.any(-1).float())
    assert_close(context, weights @ v)
    assert_close(attend(q, k, v, mask=mask, causal=causal), context)


def test_masked_keys_do_not_matter() -> None:
    q, k, v = inputs()
    mask = length_mask(torch.tensor([2, 2]), 4)[:, None]
    assert_close(attend(q, k, v, mask=mask), attend(q, k[:, :2], v[:, :2]))


def test_causal_attention_is_aligned_at_the_end() -> None:
    """The last queries alone, as in step-by-step decoding, get what they get among all."""
    q, k, v = inputs(4, 4)
    whole = attend(q, k, v, causal=True)
    assert_close(attend(q[:, 3:], k, v, causal=True), whole[:, 3:])
    assert_close(attend(q[:, 1:2], k[:, :2], v[:, :2], causal=True), whole[:, 1:2])


@pytest.mark.covers("A10")
@pytest.mark.parametrize("score", SCORES)
def test_a_scale_multiplies_the_scores(score: str) -> None:
    """none: 1; sqrt_d: 1/√Q; sqrt_max: 1/√max(Q, K); a number: itself."""
    keys = 5 if score in ("dot", "scaled_dot") else 7
    module = SCORES[score](5, keys)
    q, k, v = torch.randn(2, 3, 5), torch.randn(2, 4, keys), torch.randn(2, 4, 6)
    plain = module(q, k) * (5**0.5 if score == "scaled_dot" else 1.0)
    for scale, factor in {"none": 1.0, "sqrt_d": 5**-0.5, "sqrt_max": keys**-0.5, 0.3: 0.3}.items():
        expected = (plain * factor).softmax(-1) @ v
        assert_close(attend(q, k, v, score=module, scale=scale), expected)
        assert_close(attend(q, k, v, score=module, scale=scale, weights=True)[0], expected)
    with pytest.raises(ConfigError, match='"sqrt" is not a scale'):
        attend(q, k, v, score=module, scale="sqrt")


@pytest.mark.covers("A2")
def test_hard_attention_has_the_gradient_of_the_softmax() -> None:
    """Forward exactly 1 at the best key; backward d/ds Σ_k g_k w_k with w = softmax(s), as if they were soft."""
    mask = length_mask(torch.tensor([4, 2]), 4)[:, None]
    found = []
    for hard in (True, False):
        q, k, v = inputs()
        _, weights = attend(q, k, v, hard=hard, mask=mask, weights=True)
        assert (not hard) or set(weights.unique().tolist()) == {0.0, 1.0}
        (weights * torch.arange(24.0).view(2, 3, 4).cos()).sum().backward()
        found.append((q.grad, k.grad))
    assert_close(*found)
    assert found[0][0].any()


@pytest.mark.covers("A2")
def test_hard_attention_takes_the_best_key_alone() -> None:
    q, k, v = inputs()
    mask = length_mask(torch.tensor([4, 2]), 4)[:, None]
    context, weights = attend(q, k, v, hard=True, mask=mask, weights=True)
    soft = attend(q, k, v, mask=mask, weights=True)[1]
    assert_close(weights, (soft == soft.amax(-1, keepdim=True)).float())
    assert_close(attend(q, k, v, hard=True, mask=mask), context)
    empty = attend(q, k, v, hard=True, mask=torch.zeros(4, dtype=torch.bool))
    assert not empty.any()


def test_dropout_acts_on_the_weights_that_are_returned() -> None:
    torch.manual_seed(0)
    q, k, v = inputs(50, 50)
    context, weights = attend(q, k, v, dropout=0.5, weights=True)
    assert_close(context, weights @ v)
    assert 0.4 < (weights == 0).float().mean() < 0.6
    assert not torch.allclose(attend(q, k, v, dropout=0.5), attend(q, k, v))


def test_leading_dimensions_broadcast() -> None:
    q, k, v = inputs()
    heads = attend(q[:, None].expand(2, 3, 3, 5), k[:, None], v[:, None], mask=masks()["lengths"][:, None])
    assert_close(heads[:, 2], attend(q, k, v, mask=masks()["lengths"]))


def test_an_unknown_score_is_named() -> None:
    q, k, v = inputs()
    with pytest.raises(ConfigError, match='"additive" is not a score without weights'):
        attend(q, k, v, score="additive")
