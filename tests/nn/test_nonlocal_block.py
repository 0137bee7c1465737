"""The non-local block: its equation, its start, and what it does over places."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from weft.errors import ConfigError
from weft.nn import NonLocal

SHAPES = {1: (2, 6, 5), 2: (2, 6, 3, 4), 3: (2, 6, 2, 3, 2)}


def trained(dimensions: int, **options: int) -> NonLocal:
    torch.manual_seed(0)
    block = NonLocal(6, dimensions=dimensions, **options)
    nn.init.normal_(block.output.weight)
    nn.init.normal_(block.output.bias)
    return block


def map_of(part: nn.Module, x: Tensor) -> Tensor:
    """A 1x1 convolution at one place: x (C) -> (inner)."""
    return part.weight.flatten(1) @ x + part.bias


@pytest.mark.parametrize("dimensions", SHAPES)
def test_a_new_block_is_the_identity_and_can_learn(dimensions: int) -> None:
    block, x = NonLocal(6, dimensions=dimensions), torch.randn(SHAPES[dimensions])
    assert torch.equal(block(x), x)
    (block(x) * torch.randn_like(x)).sum().backward()
    assert block.output.weight.grad.any()


@pytest.mark.covers("A7")
@pytest.mark.parametrize("inner", [None, 2])
@pytest.mark.parametrize("dimensions", SHAPES)
def test_the_equation_at_one_place(dimensions: int, inner: int | None) -> None:
    block, x = trained(dimensions, inner=inner), torch.randn(SHAPES[dimensions])
    places = x[1].flatten(1).T
    query = map_of(block.theta, places[3])
    weights = torch.stack([query @ map_of(block.phi, place) for place in places]).softmax(0)
    context = sum(weight * map_of(block.g, place) for weight, place in zip(weights, places, strict=True))
    expected = places[3] + map_of(block.output, context)
    assert context.numel() == (inner or 3)
    assert_close(block(x)[1].flatten(1)[:, 3], expected, atol=1e-5, rtol=1e-5)
    found, used = block.attend(x)
    assert_close(used[1, 3], weights)
    assert_close(found, block(x))


def test_places_may_change_their_order() -> None:
    block, x = trained(2), torch.randn(SHAPES[2])
    turned = block(x.flip(2).transpose(2, 3))
    assert_close(turned, block(x).flip(2).transpose(2, 3), atol=1e-5, rtol=1e-5)


def test_every_map_gets_a_gradient() -> None:
    block = trained(3)
    block(torch.randn(SHAPES[3])).square().sum().backward()
    # The same number added to every key changes no weight, so φ's bias gets none.
    assert [name for name, weight in block.named_parameters() if weight.grad.abs().max() < 1e-4] == ["phi.bias"]


def test_what_does_not_fit_is_named() -> None:
    with pytest.raises(ConfigError, match=r"dimensions = 4: is not 1, 2 or 3 \(2 for pictures"):
        NonLocal(6, dimensions=4)
    with pytest.raises(
        ConfigError, match=r"5 dimensions are not .* 2 dimensions of places \(build it with dimensions=3"
    ):
        NonLocal(6)(torch.randn(SHAPES[3]))
