"""The product before the loop: the same numbers and gradients as torch, and as the reference in a whole layer."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from weft.nn import RNN
from weft.nn.recurrent.engine.products import row_product

LARGE = 192


@pytest.mark.parametrize("upright", [False, True], ids=["as-stored", "transposed"])
def test_gradients_are_those_of_torch(upright: bool) -> None:
    torch.manual_seed(0)
    x = torch.randn(37, 200)[:, 3:131].requires_grad_()
    weight = torch.randn((300, 128) if upright else (128, 300), requires_grad=True)
    matrix = weight.t() if upright else weight
    gradient = torch.randn(37, 300)
    wanted = torch.autograd.grad(x @ matrix, (x, weight), gradient)
    given = torch.autograd.grad(row_product(x, matrix), (x, weight), gradient)
    assert_close(row_product(x, matrix), x @ matrix, rtol=1e-5, atol=1e-5)
    for mine, theirs in zip(given, wanted, strict=True):
        assert_close(mine, theirs, rtol=1e-5, atol=1e-4)
        assert mine.stride() == theirs.stride()


def test_a_weight_alone_gets_its_gradient() -> None:
    x, weight = torch.randn(5, 256), torch.randn(256, 256, requires_grad=True)
    row_product(x, weight).sum().backward()
    assert_close(weight.grad, x.sum(0)[:, None].expand(256, 256), rtol=1e-5, atol=1e-5)


def test_second_derivatives_go_through_it() -> None:
    x, weight = torch.randn(4, 256, requires_grad=True), torch.randn(256, 256, requires_grad=True)
    (slope,) = torch.autograd.grad(row_product(x, weight).pow(2).sum(), x, create_graph=True)
    (mine,) = torch.autograd.grad(slope.sum(), weight)
    (slope,) = torch.autograd.grad((x @ weight).pow(2).sum(), x, create_graph=True)
    assert_close(mine, torch.autograd.grad(slope.sum(), weight)[0], rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("lengths", [None, [9, 3, 0, 7], [9, 9, 9, 8]], ids=["full", "packed", "padded"])
@pytest.mark.parametrize("bidirectional", [False, True], ids=["ahead", "both"])
@pytest.mark.parametrize("name", ["lstm", "peephole_lstm", "gru", "mut1"])
def test_a_large_layer_is_the_reference(name: str, bidirectional: bool, lengths: list[int] | None) -> None:
    """Called twice before one backward pass."""
    torch.manual_seed(2)
    plain = RNN(name, LARGE, LARGE, bidirectional=bidirectional, backend="reference")
    fast = RNN(name, LARGE, LARGE, bidirectional=bidirectional, backend="engine")
    fast.load_state_dict(plain.state_dict())
    ends = None if lengths is None else torch.tensor(lengths)
    x = torch.randn(4, 9, LARGE, requires_grad=True)
    results = []
    for rnn in (plain, fast):
        output, _ = rnn(x, ends)
        again, last = rnn(x, ends)
        loss = output.sin().sum() + again.cos().sum() + sum(leaf.sum() for leaf in leaves(last))
        results.append([output, *torch.autograd.grad(loss, [x, *rnn.parameters()])])
    for mine, theirs in zip(results[1], results[0], strict=True):
        assert_close(mine, theirs, rtol=1e-4, atol=1e-4)


def leaves(state: object) -> list[Tensor]:
    if isinstance(state, Tensor):
        return [state]
    assert isinstance(state, tuple)
    return [leaf for part in state for leaf in leaves(part)]


def test_other_types_are_left_to_torch() -> None:
    x, weight = torch.randn(5, 256, dtype=torch.float64), torch.randn(256, 256)
    assert_close(row_product(x, weight.double()), x @ weight.double())
    with pytest.raises(RuntimeError, match="dtype"):
        row_product(x, weight)
