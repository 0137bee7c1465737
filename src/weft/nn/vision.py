"""A residual network over pictures, and random changes of pictures in training.

    y  = relu(N(conv₃(x)))
    x' = relu(skip(x) + N(conv₃(y)))          skip(x) = x, or N(conv₁(x)) where size or channels change

N normalises groups of channels (Wu and He, 2018), so a picture's result does not depend on the others of its batch.
                                              B batch, C channels, H height, W width, S = H' W' positions
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

CHANNELS_PER_GROUP = 8


def group_norm(channels: int) -> nn.GroupNorm:
    """A norm over groups of 8 channels, or over all where 8 does not divide them."""
    return nn.GroupNorm(channels // CHANNELS_PER_GROUP if channels % CHANNELS_PER_GROUP == 0 else 1, channels)


class ResidualBlock(nn.Module):
    """Two convolutions with a connection past them; with a stride it makes a picture smaller."""

    def __init__(self, channels: int, outputs: int, *, stride: int = 1) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, outputs, 3, stride, padding=1, bias=False)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.first_norm, self.second_norm = group_norm(outputs), group_norm(outputs)
        self.skip: nn.Module = nn.Identity()
        if stride != 1 or channels != outputs:
            self.skip = nn.Sequential(nn.Conv2d(channels, outputs, 1, stride, bias=False), group_norm(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) -> (B, C', H', W')."""
        y = F.relu(self.first_norm(self.first(x)))
        return F.relu(self.skip(x) + self.second_norm(self.second(y)))


class ResidualNet(nn.Module):
    """A first convolution that halves a picture, then stages of blocks; each stage after the first halves it again."""

    def __init__(self, inputs: int, channels: Sequence[int], *, blocks: int = 1) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, channels[0], 5, 2, padding=2, bias=False)
        self.norm = group_norm(channels[0])
        before, stages = channels[0], list[nn.Module]()
        for number, outputs in enumerate(channels):
            for block in range(blocks):
                stages.append(ResidualBlock(before, outputs, stride=2 if number and not block else 1))
                before = outputs
        self.blocks = nn.Sequential(*stages)
        self.halvings, self.output_size = len(channels), before

    def grid(self, height: int, width: int) -> tuple[int, int]:
        """The rows and columns of positions that a picture of this size becomes."""
        for _ in range(self.halvings):
            height, width = (height + 1) // 2, (width + 1) // 2
        return height, width

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) -> (B, C', H', W')."""
        x = x.contiguous(memory_format=torch.channels_last)  # the layout in which convolutions are fastest
        return self.blocks(F.relu(self.norm(self.first(x))))  # type: ignore[no-any-return]


def shift_pictures(pictures: Tensor, most: int) -> Tensor:
    """Move each picture (B, C, H, W) by up to `most` pixels in each direction; its edge is repeated."""
    if most == 0:
        return pictures
    batch, channels, height, width = pictures.shape
    padded = F.pad(pictures, (most, most, most, most), mode="replicate")
    down, right = torch.randint(0, 2 * most + 1, (2, batch, 1), device=pictures.device)
    rows = down + torch.arange(height, device=pictures.device)
    columns = right + torch.arange(width, device=pictures.device)
    padded = padded.gather(2, rows[:, None, :, None].expand(-1, channels, -1, padded.size(3)))
    return padded.gather(3, columns[:, None, None, :].expand(-1, channels, height, -1))


def flip_pictures(pictures: Tensor) -> Tensor:
    """Mirror each picture (B, C, H, W) with probability ½, left to right."""
    flipped = torch.rand(pictures.size(0), 1, 1, 1, device=pictures.device) < 0.5
    return torch.where(flipped, pictures.flip(3), pictures)
