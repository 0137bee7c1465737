"""Rotary positions (Su et al., 2021): queries and keys are turned by an angle that grows with their place.

    (a, b) -> (a cos tω_i - b sin tω_i, a sin tω_i + b cos tω_i)         ω_i = base^(-2i/D), t the place

The product of a query at t with a key at s then depends on t - s alone.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from weft.errors import ConfigError


class Rotary(nn.Module):
    """Turns pairs (i, i + D/2) of features; nothing to learn."""

    def __init__(self, size: int, *, base: float = 10_000.0) -> None:
        super().__init__()
        if size % 2:
            raise ConfigError(f"rotary positions turn pairs, and a head has {size} features", where="positions")
        self.size, self.base = size, base

    def angles(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """positions (…) -> cosines and sines (…, D/2), in float32."""
        steps = torch.arange(0, self.size, 2, device=positions.device, dtype=torch.float32)
        angles = positions.float()[..., None] * self.base ** (-steps / self.size)
        return angles.cos(), angles.sin()

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        """x (…, D), positions broadcastable to its leading dimensions -> (…, D)."""
        cosine, sine = self.angles(positions)
        first, second = x.float().chunk(2, dim=-1)
        turned = torch.cat([first * cosine - second * sine, first * sine + second * cosine], dim=-1)
        return turned.to(x.dtype)
