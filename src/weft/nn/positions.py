"""Positions of tokens for a transformer: x is the vector of a token, t its position.

onehot           [x; e_t]                                learned   x + p_t
joint            W1 tanh(W2 x + W3 e_t + b)              sinusoid  x + s_t
sinusoid_concat  [x; s_t]                                none      x

s_t holds sin and cos of t / 10000^(2i/D) for i = 0 … D/2 - 1, side by side. Rotary positions act inside attention.
"""

from __future__ import annotations

import math
from typing import Final, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Positions(Protocol):
    """x (…, size) and places broadcastable to its leading dimensions -> (…, output_size)."""

    output_size: int

    def __call__(self, x: Tensor, places: Tensor) -> Tensor: ...

    def codes(self, places: Tensor) -> Tensor | None:
        """The vector that stands for each place (…), whatever the token: (…, D); None where there is none."""


def sinusoids(places: Tensor, size: int) -> Tensor:
    """places (…) -> (…, size) in float32: columns 2i and 2i + 1 are sin and cos of t / 10000^(2i/size)."""
    steps = torch.arange(0, size, 2, device=places.device, dtype=torch.float32)
    angles = places.float()[..., None] * torch.exp(steps * (-math.log(10_000.0) / size))
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)[..., :size]


class NoPositions(nn.Module):
    """x."""

    vectors: None = None
    """Nothing is added."""

    def __init__(self, size: int, longest: int) -> None:
        super().__init__()
        self.output_size = size

    def forward(self, x: Tensor, places: Tensor) -> Tensor:
        return x

    def codes(self, places: Tensor) -> None:
        return None


class OneHotPositions(nn.Module):
    """[x; e_t]."""

    def __init__(self, size: int, longest: int) -> None:
        super().__init__()
        self.longest, self.output_size = longest, size + longest

    def forward(self, x: Tensor, places: Tensor) -> Tensor:
        indicator = F.one_hot(places, self.longest).to(x.dtype)
        return torch.cat([x, indicator.expand(*x.shape[:-1], -1)], dim=-1)

    def codes(self, places: Tensor) -> Tensor:
        """e_t."""
        return F.one_hot(places, self.longest).float()


class LearnedPositions(nn.Module):
    """x + p_t."""

    def __init__(self, size: int, longest: int) -> None:
        super().__init__()
        self.output_size = size
        self.table = nn.Embedding(longest, size)
        nn.init.normal_(self.table.weight, std=0.02)

    def forward(self, x: Tensor, places: Tensor) -> Tensor:
        shifted: Tensor = x + self.table(places)
        return shifted

    def codes(self, places: Tensor) -> Tensor:
        """p_t."""
        return self.table.weight[places]

    @property
    def vectors(self) -> Tensor:
        """p_t of all places (T, size)."""
        return self.table.weight


class JointPositions(nn.Module):
    """W1 tanh(W2 x + W3 e_t + b): token and place mixed before the first layer."""

    def __init__(self, size: int, longest: int) -> None:
        super().__init__()
        self.output_size = size
        self.w1 = nn.Linear(size, size, bias=False)
        self.w2 = nn.Linear(size, size)
        self.w3 = nn.Embedding(longest, size)
        nn.init.normal_(self.w3.weight, std=0.02)

    def forward(self, x: Tensor, places: Tensor) -> Tensor:
        mixed: Tensor = self.w1(torch.tanh(self.w2(x) + self.w3(places)))
        return mixed

    def codes(self, places: Tensor) -> Tensor:
        """W3 e_t."""
        return self.w3.weight[places]


class SinusoidPositions(nn.Module):
    """x + s_t."""

    def __init__(self, size: int, longest: int) -> None:
        super().__init__()
        self.output_size = size
        self.table: Tensor
        self.register_buffer("table", torch.empty(0, size), persistent=False)

    def reach(self, longest: int) -> None:
        """Keep the waves of so many places: to look one up is quicker than to make it, where places come singly."""
        if longest > self.table.size(0):
            self.table = sinusoids(torch.arange(longest, device=self.table.device), self.output_size)

    def forward(self, x: Tensor, places: Tensor, *, within: bool = False) -> Tensor:
        """`within` promises that all places are in the table."""
        waves = self.table[places] if within else sinusoids(places, self.output_size)
        return x + waves.to(x.dtype)

    def codes(self, places: Tensor) -> Tensor:
        """s_t."""
        return sinusoids(places, self.output_size)

    @property
    def vectors(self) -> Tensor:
        """s_t of the places that are kept (T, size)."""
        return self.table


class SinusoidConcatPositions(nn.Module):
    """[x; s_t], as many numbers for the place as for the token."""

    def __init__(self, size: int, longest: int) -> None:
        super().__init__()
        self.size, self.output_size = size, 2 * size

    def forward(self, x: Tensor, places: Tensor) -> Tensor:
        waves = sinusoids(places, self.size).to(x.dtype)
        return torch.cat([x, waves.expand(*x.shape[:-1], -1)], dim=-1)

    def codes(self, places: Tensor) -> Tensor:
        """s_t."""
        return sinusoids(places, self.size)


PositionsClass = type[
    NoPositions | OneHotPositions | LearnedPositions | JointPositions | SinusoidPositions | SinusoidConcatPositions
]

POSITIONS: Final[dict[str, PositionsClass]] = {
    "onehot": OneHotPositions,
    "learned": LearnedPositions,
    "joint": JointPositions,
    "sinusoid": SinusoidPositions,
    "sinusoid_concat": SinusoidConcatPositions,
    "rotary": NoPositions,
    "none": NoPositions,
}
"""Name to class, built as `POSITIONS[name](size, longest)`; rotary leaves the vectors alone and acts in attention."""

BOUNDED: Final = ("onehot", "learned", "joint")
"""Kinds that know places up to a limit only."""

ADDED: Final = (NoPositions, LearnedPositions, SinusoidPositions)
"""Classes that add one of their `vectors` (T, size), or nothing."""
