"""Products with packed weights in C against torch's, and when packed weights are held."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from weft.nn.linear import Linear
from weft.nn.native import packed_linear

CLOSE = {"atol": 1e-5, "rtol": 1e-4}


@pytest.fixture(autouse=True)
def _outside_of_training(vectors: str) -> Iterator[None]:
    if packed_linear.LIBRARY.load() is None:
        pytest.skip("no C compiler")
    torch.manual_seed(0)
    with torch.no_grad(), packed_linear.PackedWeights():
        yield


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 65, 130])
@pytest.mark.parametrize(("inputs", "outputs"), [(5, 1), (16, 16), (33, 50), (64, 300)])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.usefixtures("threads")
def test_products(rows: int, inputs: int, outputs: int, bias: bool) -> None:
    linear, x = nn.Linear(inputs, outputs, bias=bias), torch.randn(rows, inputs)
    assert_close(packed_linear.multiply(x, linear), linear(x), **CLOSE)
    assert_close(packed_linear.multiply(x, linear, relu=True), linear(x).relu(), **CLOSE)


def test_leading_dimensions_and_strides() -> None:
    linear = nn.Linear(6, 9)
    x = torch.randn(3, 4, 12)[..., ::2]
    assert_close(packed_linear.multiply(x, linear), linear(x), **CLOSE)
    part = torch.randn(5, 12)[:, :6]
    assert_close(packed_linear.multiply(part, linear), linear(part), **CLOSE)


def test_weights_that_changed_are_packed_anew() -> None:
    """However they did: a fused optimizer changes them without torch counting it."""
    linear, x = Linear(6, 9), torch.randn(4, 6)
    optimizer = torch.optim.AdamW(linear.parameters(), lr=0.1, fused=True)

    def learn() -> None:
        with torch.enable_grad():
            linear(x).sum().backward()
        optimizer.step()

    changes = (
        lambda: None,
        lambda: linear.weight.mul_(2),
        lambda: linear.bias.data.add_(1),
        learn,
        lambda: linear.load_state_dict(nn.Linear(6, 9).state_dict()),
        lambda: setattr(linear, "weight", nn.Parameter(torch.randn(9, 6))),
        lambda: linear.weight.data.copy_(linear.weight.flip(0)),
    )
    for change in changes:
        change()
        with packed_linear.PackedWeights() as held:
            for _ in range(2):
                assert_close(linear(x), nn.functional.linear(x, linear.weight, linear.bias), **CLOSE)
            assert linear in held.known


def test_torch_multiplies_where_no_packed_weights_are_held() -> None:
    linear, x = Linear(6, 9), torch.randn(4, 6)
    assert packed_linear.multiplies(x, linear)
    assert not packed_linear.multiplies(x[:1], linear)
    with packed_linear.PackedWeights():
        pass
    assert packed_linear.multiplies(x, linear), "the outer block still holds them"
    held, packed_linear._here.packed = packed_linear._here.packed, None
    assert not packed_linear.multiplies(x, linear)
    packed_linear._here.packed = held


def test_packed_weights_may_be_entered_again() -> None:
    outer, again = packed_linear.packed_weights(), packed_linear.PackedWeights()
    with again:
        with again:
            assert packed_linear.packed_weights() is again
        assert packed_linear.packed_weights() is again
    assert packed_linear.packed_weights() is outer


def test_what_learns_is_left_to_torch() -> None:
    linear = Linear(6, 9)
    with torch.enable_grad():
        linear(torch.randn(4, 6)).sum().backward()
    assert linear.weight.grad is not None
    assert linear.double()(torch.randn(4, 6, dtype=torch.float64)).dtype == torch.float64


def test_a_compiler_sees_one_product() -> None:
    linear, x = Linear(6, 9), torch.randn(4, 6)
    whole = torch.compile(lambda x: linear.relu(linear(x)[:, :6]), backend="eager", fullgraph=True)
    assert_close(whole(x), linear.relu(linear(x)[:, :6]), **CLOSE)
    with torch.enable_grad():
        whole(x).sum().backward()
    assert linear.weight.grad is not None
