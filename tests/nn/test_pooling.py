"""Poolings: worked values, padding, gradients."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from weft.errors import ConfigError
from weft.nn import POOLINGS, Pooling
from weft.nn.pooling import AttentionPooling

LENGTHS = torch.tensor([3, 1, 0])


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("last", [3.0, -6.0]), ("mean", [2.0, -1.0]), ("max", [3.0, 5.0])],
)
def test_worked_values(kind: str, expected: list[float]) -> None:
    states = torch.tensor([[[1.0, -2.0], [2.0, 5.0], [3.0, -6.0], [99.0, 99.0]]])
    assert Pooling(kind, 2)(states, torch.tensor([3])).tolist() == [expected]


@pytest.mark.covers("A6")
def test_attention_weighs_by_its_query() -> None:
    pool = AttentionPooling(2)
    with torch.no_grad():
        pool.to_key.weight.copy_(torch.eye(2))
        pool.to_key.bias.zero_()
        pool.query.copy_(torch.tensor([[1.0, 0.0]]))
    states = torch.tensor([[[0.0, 4.0], [1.0, 8.0], [7.0, 7.0]]])
    pooled, weights = pool.attend(states, torch.tensor([2]))
    second = torch.sigmoid(torch.tanh(torch.tensor(1.0)))
    assert_close(weights, torch.stack((1 - second, second, torch.tensor(0.0)))[None])
    assert_close(pooled, torch.stack((second, 4 + 4 * second))[None])


@pytest.mark.parametrize("kind", POOLINGS)
def test_padding_changes_no_row(kind: str) -> None:
    torch.manual_seed(0)
    pool, states = Pooling(kind, 4), torch.randn(3, 3, 4, requires_grad=True)
    pooled = pool(states, LENGTHS)
    for row, length in ((0, 3), (1, 1)):
        assert_close(pooled[row : row + 1], pool(states[row : row + 1, :length]))
    assert not pooled[2].any()
    pooled.square().sum().backward()
    assert states.grad is not None
    assert states.grad.isfinite().all()
    assert not states.grad[1, 1:].any()
    assert states.grad[0, 0 if kind == "first" else 2].any()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in pool.parameters())


@pytest.mark.parametrize("kind", POOLINGS)
def test_a_batch_without_any_step_gives_zeros(kind: str) -> None:
    assert Pooling(kind, 4)(torch.empty(2, 0, 4)).tolist() == [[0.0] * 4] * 2


def test_an_unknown_pooling_is_named() -> None:
    with pytest.raises(ConfigError, match=r'pooling: "maen" is not a pooling \(did you mean "mean"\?\)'):
        Pooling("maen", 4)


@pytest.mark.covers("A6")
def test_several_queries_give_a_mean_each() -> None:
    torch.manual_seed(0)
    pool, one = AttentionPooling(4, queries=3), AttentionPooling(4)
    one.to_key.load_state_dict(pool.to_key.state_dict())
    states = torch.randn(3, 3, 4)
    pooled, weights = pool.attend(states, LENGTHS)
    assert pooled.shape == (3, pool.output_size)
    assert weights.shape == (3, 3, 3)
    for number in range(3):
        with torch.no_grad():
            one.query.copy_(pool.query[number : number + 1])
        alone, alone_weights = one.attend(states, LENGTHS)
        assert_close(pooled[:, 4 * number : 4 * number + 4], alone)
        assert_close(weights[:, number], alone_weights)
    assert not pooled[2].any()
    assert_close(pool(states, LENGTHS), pooled)
