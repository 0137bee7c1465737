"""Each score against its equation, written out for one query and one key."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from weft.errors import ConfigError
from weft.nn import SCORES, attend
from weft.nn.attention import Additive, Bilinear, Concat, LowRank, dot, scaled_dot


@pytest.fixture
def pair() -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.randn(2, 3, 4), torch.randn(2, 5, 6)


@pytest.mark.covers("A1")
def test_products_by_hand() -> None:
    q, k = torch.tensor([[1.0, 2.0, 3.0, 4.0]]), torch.tensor([[1.0, 0.0, 1.0, 0.0], [0.5, 0.5, 0.5, 0.5]])
    assert_close(dot(q, k), torch.tensor([[4.0, 5.0]]))
    assert_close(scaled_dot(q, k), torch.tensor([[2.0, 2.5]]))


@pytest.mark.covers("A1")
def test_bilinear(pair: tuple[Tensor, Tensor]) -> None:
    score = Bilinear(4, 6)
    q, k = pair
    assert_close(score(q, k)[1, 2, 3], q[1, 2] @ score.keys_to_query.weight @ k[1, 3])


@pytest.mark.covers("A1")
def test_low_rank(pair: tuple[Tensor, Tensor]) -> None:
    score = LowRank(4, 6, rank=3)
    q, k = pair
    assert_close(score(q, k)[1, 2, 3], (score.u.weight @ q[1, 2]) @ (score.v.weight @ k[1, 3]))
    assert score.u.weight.shape == (3, 4)


@pytest.mark.covers("A1")
def test_concat(pair: tuple[Tensor, Tensor]) -> None:
    score = Concat(4, 6, size=7)
    q, k = pair
    expected = score.w.weight[0] @ torch.tanh(score.joint.weight @ torch.cat((q[1, 2], k[1, 3])))
    assert_close(score(q, k)[1, 2, 3], expected)


@pytest.mark.covers("A1")
def test_additive(pair: tuple[Tensor, Tensor]) -> None:
    score = Additive(4, 6, size=7)
    q, k = pair
    expected = score.w.weight[0] @ torch.tanh(score.w_a.weight @ q[1, 2] + score.w_b.weight @ k[1, 3])
    assert_close(score(q, k)[1, 2, 3], expected)


@pytest.mark.parametrize("name", SCORES)
def test_keys_once_per_sentence_give_the_same_attention(name: str) -> None:
    torch.manual_seed(0)
    score = SCORES[name](4, 4)
    query, memory = torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    whole = attend(query, memory, memory, score=score)
    keys = score.keys(memory)
    for t in range(3):
        assert_close(attend(query[:, t : t + 1], keys, memory, score=score.compare), whole[:, t : t + 1])
    assert_close(attend(query, memory, memory, score=score, weights=True)[0], whole)


@pytest.mark.parametrize("name", ["bilinear", "low_rank", "concat", "additive"])
def test_every_weight_gets_a_gradient(name: str) -> None:
    score = SCORES[name](4, 4)
    attend(torch.randn(2, 3, 4), torch.randn(2, 5, 4), torch.randn(2, 5, 4), score=score).square().sum().backward()
    for parameter in score.parameters():
        assert parameter.grad is not None
        assert parameter.grad.any()


@pytest.mark.parametrize("name", ["dot", "scaled_dot"])
def test_products_need_equal_sizes(name: str) -> None:
    with pytest.raises(ConfigError, match=f'"{name}" needs queries and keys of one size, not 4 and 6'):
        SCORES[name](4, 6)
