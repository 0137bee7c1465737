"""Dropout: of every number by itself, and for sequences of the same features at every step of a row.

A recurrent net can average away noise that changes from step to step; it cannot average away features that are gone
for a whole row (Gal and Ghahramani, 2016). That also takes T times fewer random numbers.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

LEVELS = 1 << 16
"""Dropout rates that can be distinguished on a CPU."""


def drop(x: Tensor, rate: float) -> Tensor:
    """x with numbers set to zero with probability `rate`, the rest scaled by 1 / (1 - rate).

    On a processor torch draws its random numbers one by one, which takes a twelfth of a transformer's step; there
    numpy draws them four at a time, from a seed of torch's.
    """
    if rate == 0.0 or x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.dropout(x, rate)
    seed = int(torch.empty((), dtype=torch.int64).random_())
    draws = np.random.Generator(np.random.SFC64(seed)).integers(
        np.iinfo(np.int64).min, np.iinfo(np.int64).max, size=-(-x.numel() // 4), dtype=np.int64
    )
    kept = torch.from_numpy(draws).view(torch.int16)[: x.numel()].view(x.shape) >= round(rate * LEVELS) - LEVELS // 2
    return x * kept.to(x.dtype).mul_(1 / (1 - rate))


class Dropout(nn.Module):
    """Each number by itself, in training."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        """x of any shape -> the same."""
        return drop(x, self.rate) if self.training else x

    def extra_repr(self) -> str:
        return f"rate={self.rate}"


class TimeDropout(nn.Module):
    """x (B, T, D) with features of each row set to zero with probability `rate`, the rest scaled by 1 / (1 - rate)."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) -> (B, T, D)."""
        if not self.training or self.rate == 0.0:
            return x
        return x * F.dropout(x.new_ones(x.size(0), 1, x.size(2)), self.rate)

    def extra_repr(self) -> str:
        return f"rate={self.rate}"
