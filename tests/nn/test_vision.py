"""The residual network over pictures, and random changes of pictures."""

from __future__ import annotations

import torch
from torch import nn
from torch.testing import assert_close

from weft.nn.vision import ResidualBlock, ResidualNet, flip_pictures, shift_pictures


def test_a_block_is_its_equation() -> None:
    torch.manual_seed(0)
    block = ResidualBlock(8, 16, stride=2)
    x = torch.randn(2, 8, 6, 6)
    y = torch.relu(block.first_norm(block.first(x)))
    assert_close(block(x), torch.relu(block.skip(x) + block.second_norm(block.second(y))))
    assert isinstance(ResidualBlock(8, 8).skip, nn.Identity)
    assert block(x).shape == (2, 16, 3, 3)


def test_the_grid_is_the_shape_of_the_result() -> None:
    net = ResidualNet(3, [8, 16, 16], blocks=2)
    for height, width in ((28, 28), (9, 17), (8, 8), (1, 1)):
        assert net(torch.randn(1, 3, height, width)).shape == (1, 16, *net.grid(height, width))


def test_a_picture_does_not_depend_on_the_others_and_every_weight_learns() -> None:
    torch.manual_seed(0)
    net = ResidualNet(1, [8, 12])
    x = torch.randn(3, 1, 12, 12)
    assert_close(net(x)[1:2], net(x[1:2]), rtol=1e-4, atol=1e-5)
    (net(x) * torch.randn(1, 12, 1, 1)).sum().backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in net.parameters())


def test_a_shift_moves_whole_pictures_and_repeats_their_edge() -> None:
    torch.manual_seed(0)
    picture = torch.arange(25.0).view(1, 1, 5, 5)
    seen = set()
    for moved in shift_pictures(picture.expand(60, 2, 5, 5), 1):
        assert_close(moved[0], moved[1])
        found = [
            (down, right)
            for down in (-1, 0, 1)
            for right in (-1, 0, 1)
            if torch.equal(moved[0], picture[0, 0][_clamped(down)][:, _clamped(right)])
        ]
        assert len(found) == 1
        seen.update(found)
    assert len(seen) == 9
    assert shift_pictures(picture, 0) is picture


def _clamped(offset: int) -> list[int]:
    return [min(max(place + offset, 0), 4) for place in range(5)]


def test_half_of_the_pictures_are_mirrored() -> None:
    torch.manual_seed(0)
    pictures = torch.randn(1, 3, 4, 4).expand(200, 3, 4, 4)
    flipped = flip_pictures(pictures)
    same = [torch.equal(one, pictures[0]) for one in flipped]
    assert all(torch.equal(one, pictures[0].flip(2)) for one, kept in zip(flipped, same, strict=True) if not kept)
    assert 70 < sum(same) < 130
