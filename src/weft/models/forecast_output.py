"""The outputs of a forecaster: one number, quantiles, or the parameters of a Student-t distribution, for each step.

    point       m                     loss |y - m|
    quantile    q_1 < … < q_Q         loss 2/Q Σ_i max(τ_i (y - q_i), (τ_i - 1)(y - q_i))
    student_t   μ, σ, ν               loss -log t_ν((y - μ) / σ) + log σ

The network gives a correction r in units of the window's scale s, added to a simple forecast b: m = b + s r.
B batch, H horizon, Q quantiles.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

MIN_FREEDOM: Final = 2.05
"""The fewest degrees of freedom: with two or fewer there is no variance."""

START_SPREAD: Final = 0.5413
"""softplus of this is 1: the distances of quantiles start at a part of the window's scale."""


class ForecastOutput(Protocol):
    """From the numbers of a network to a forecast, its loss and its quantiles."""

    size: int
    """Numbers that the network gives for each step."""

    def parameters(self, raw: Tensor, base: Tensor, scale: Tensor) -> Tensor:
        """raw (B, H, size), simple forecast (B, H), scale (B, 1) -> what the others read, (B, H, size)."""

    def loss(self, parameters: Tensor, target: Tensor) -> Tensor:
        """parameters (B, H, size), target (B, H) -> (B, H)."""

    def point(self, parameters: Tensor) -> Tensor:
        """The median (B, H)."""

    def quantiles(self, parameters: Tensor) -> Tensor:
        """(B, H, Q), for the levels that it was built with."""


class PointOutput:
    """One number; its quantiles come from the errors on validation data alone."""

    size = 1

    def __init__(self, levels: list[float]) -> None:
        self.levels = levels

    def parameters(self, raw: Tensor, base: Tensor, scale: Tensor) -> Tensor:
        return base[..., None] + scale[..., None] * raw

    def loss(self, parameters: Tensor, target: Tensor) -> Tensor:
        return (parameters[..., 0] - target).abs()

    def point(self, parameters: Tensor) -> Tensor:
        return parameters[..., 0]

    def quantiles(self, parameters: Tensor) -> Tensor:
        return parameters.expand(-1, -1, len(self.levels))


class QuantileOutput:
    """Quantiles that never cross: the median, and positive distances from each to the next."""

    def __init__(self, levels: list[float]) -> None:
        self.levels, self.size = levels, len(levels)
        self.middle = levels.index(0.5)

    def parameters(self, raw: Tensor, base: Tensor, scale: Tensor) -> Tensor:
        median = base[..., None] + scale[..., None] * raw[..., self.middle : self.middle + 1]
        spread = scale[..., None] * F.softplus(raw + START_SPREAD) / self.size
        above = spread[..., self.middle + 1 :].cumsum(-1)
        below = spread[..., : self.middle].flip(-1).cumsum(-1).flip(-1)
        return torch.cat([median - below, median, median + above], dim=-1)

    def loss(self, parameters: Tensor, target: Tensor) -> Tensor:
        levels = parameters.new_tensor(self.levels)
        distance = target[..., None] - parameters
        return 2 * torch.maximum(levels * distance, (levels - 1) * distance).mean(-1)

    def point(self, parameters: Tensor) -> Tensor:
        return parameters[..., self.middle]

    def quantiles(self, parameters: Tensor) -> Tensor:
        return parameters


class StudentOutput:
    """Location, scale and degrees of freedom of a Student-t distribution, which has heavy tails."""

    size = 3

    def __init__(self, levels: list[float]) -> None:
        self.levels = levels
        self.inverse, self.table = student_table(levels)

    def parameters(self, raw: Tensor, base: Tensor, scale: Tensor) -> Tensor:
        location = base + scale * raw[..., 0]
        width = scale * F.softplus(raw[..., 1] + START_SPREAD) / 2 + 1e-4
        freedom = MIN_FREEDOM + F.softplus(raw[..., 2] + 2.0)
        return torch.stack([location, width, freedom], dim=-1)

    def loss(self, parameters: Tensor, target: Tensor) -> Tensor:
        location, width, freedom = parameters.unbind(-1)
        squared = ((target - location) / width).square()
        half = (freedom + 1) / 2
        constant = torch.lgamma(half) - torch.lgamma(freedom / 2) - 0.5 * torch.log(math.pi * freedom)
        return half * torch.log1p(squared / freedom) + width.log() - constant

    def point(self, parameters: Tensor) -> Tensor:
        return parameters[..., 0]

    def quantiles(self, parameters: Tensor) -> Tensor:
        location, width, freedom = parameters.unbind(-1)
        grid, table = self.inverse.to(freedom), self.table.to(freedom)
        place = (1 / freedom).clamp(grid[0], grid[-1])
        right = torch.searchsorted(grid, place.contiguous()).clamp(1, len(grid) - 1)
        share = ((place - grid[right - 1]) / (grid[right] - grid[right - 1]))[..., None]
        standard = table[right - 1] * (1 - share) + table[right] * share
        return location[..., None] + width[..., None] * standard


def student_table(levels: list[float]) -> tuple[Tensor, Tensor]:
    """1/ν (N,) from 0.001 up, and the quantiles (N, Q) of the standard Student-t distribution with ν degrees of
    freedom, whose density is integrated numerically."""
    inverse = np.linspace(1e-3, 1 / MIN_FREEDOM, 200)
    x = np.sinh(np.linspace(0.0, 12.0, 20_001))
    rows = []
    for nu in 1 / inverse:
        log = math.lgamma((nu + 1) / 2) - math.lgamma(nu / 2) - 0.5 * math.log(math.pi * nu)
        density = np.exp(log - (nu + 1) / 2 * np.log1p(np.square(x) / nu))
        share = 0.5 + np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(x))])
        rows.append([math.copysign(float(np.interp(max(p, 1 - p), share, x)), p - 0.5) for p in levels])
    return torch.tensor(inverse, dtype=torch.float32), torch.tensor(np.array(rows), dtype=torch.float32)


OUTPUTS: Final[dict[str, Callable[[list[float]], ForecastOutput]]] = {
    "quantile": QuantileOutput,
    "point": PointOutput,
    "student_t": StudentOutput,
}
"""The outputs of a forecaster by their names in `model.output`."""
