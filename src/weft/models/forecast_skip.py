"""Simple forecasts of a window, and their mixture: what a forecaster starts from and corrects.

    last           y_L                                              the naive forecast
    seasonal       y of the same phase in the last season           the seasonal naive forecast
    profile        mean of the same phase over all seasons of the window
    mean           mean of the last season
    shifted        seasonal + change of the mean from one season to the next, for each season ahead
    level          profile + mean of the last season - mean of all

Missing values do not count in the means, and are replaced by the value before them elsewhere. Without a season (1),
`shifted` is the drift forecast: a line from the first to the last value. B batch, L history, H horizon, m season.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor, nn

SIMPLE: Final = ("last", "seasonal", "profile", "mean", "shifted", "level")
"""The simple forecasts, in the order of their weights."""

SPEED: Final = 5.0
"""The factor of the weights of simple forecasts, which learn faster than others."""

START: Final = 4.0
"""The first weight of the naive forecast, seasonal where there is a season; that of the others is 0."""


class Mixture(nn.Module):
    """b_h = Σ_k softmax(5 w_h + u_h)_k simple_k,h          w learned, u from a network"""

    def __init__(self, horizon: int, *, season: int) -> None:
        super().__init__()
        first = torch.zeros(horizon, len(SIMPLE))
        first[:, SIMPLE.index("seasonal" if season > 1 else "last")] = START / SPEED
        self.weights = nn.Parameter(first)

    def forward(self, simple: Tensor, adjusted: Tensor) -> Tensor:
        """simple forecasts (B, H, 6), u (B, H, 6) -> (B, H)."""
        return (torch.softmax(SPEED * self.weights + adjusted, dim=-1) * simple).sum(-1)


def fill_missing(target: Tensor, observed: Tensor) -> Tensor:
    """target (B, L), observed (B, L) -> the same with the value before each missing one, or the first one after it."""
    places = torch.arange(target.size(1), device=target.device)
    first = torch.where(observed, places, target.size(1) - 1).amin(1, keepdim=True)
    before = torch.where(observed, places, 0).cummax(1).values
    return target.gather(1, torch.maximum(before, first))


def masked_mean(values: Tensor, observed: Tensor, dim: int, otherwise: Tensor) -> Tensor:
    """The mean of the observed values over a dimension; `otherwise` where there are none."""
    count = observed.sum(dim)
    mean = (values * observed).sum(dim) / count.clamp(min=1)
    return torch.where(count > 0, mean, otherwise)


def simple_forecasts(filled: Tensor, observed: Tensor, *, season: int, horizon: int) -> Tensor:
    """filled (B, L), observed (B, L) -> the simple forecasts (B, H, 6)."""
    length = filled.size(1)
    last = filled[:, -1]
    ahead = torch.arange(horizon, device=filled.device)
    m = season if season <= length else 1
    phase, seasons = ahead % m, length // m
    whole, seen = (x[:, length - seasons * m :].reshape(-1, seasons, m) for x in (filled, observed))
    seasonal = whole[:, -1]
    profile = masked_mean(whole, seen, 1, seasonal)
    mean = masked_mean(whole[:, -1], seen[:, -1], 1, last)
    every = masked_mean(whole.flatten(1), seen.flatten(1), 1, last)
    if m == 1:
        first = torch.where(observed, torch.arange(length, device=filled.device), length).amin(1).clamp(max=length - 1)
        slope = (last - filled.gather(1, first[:, None])[:, 0]) / (length - 1 - first).clamp(min=1)
        shifted = last[:, None] + slope[:, None] * (ahead + 1)
        mean = every
    else:
        before = masked_mean(whole[:, -2], seen[:, -2], 1, mean) if seasons > 1 else mean
        shifted = seasonal[:, phase] + (mean - before)[:, None] * (ahead // m + 1)
    columns = [last[:, None].expand(-1, horizon), seasonal[:, phase], profile[:, phase]]
    level = profile[:, phase] + (mean - every)[:, None]
    return torch.stack([*columns, mean[:, None].expand(-1, horizon), shifted, level], dim=-1)
