"""Optimizers and learning-rate schedules, by the names a config file uses."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "radam": torch.optim.RAdam,
    "sgd": torch.optim.SGD,
}


def build_optimizer(
    model: nn.Module, *, kind: str, rate: float, weight_decay: float, beta2: float = 0.999
) -> torch.optim.Optimizer:
    """Weight decay acts on matrices; biases and other vectors are left alone. `beta2` is for the Adam family."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    matrices = [parameter for parameter in parameters if parameter.dim() > 1]
    vectors = [parameter for parameter in parameters if parameter.dim() <= 1]
    groups: list[dict[str, Any]] = [
        {"params": matrices, "weight_decay": weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    # One kernel for all tensors of a group; RAdam has none.
    extra: dict[str, Any] = {"momentum": 0.9} if kind == "sgd" else {"betas": (0.9, beta2)}
    if kind != "radam":
        extra["fused"] = True
    return OPTIMIZERS[kind]([group for group in groups if group["params"]], lr=rate, **extra)


Schedule = Callable[[int], float]
"""From the number of the update, counted from 1, to the share of the peak rate it uses."""


def constant(warmup: int, total: int) -> Schedule:
    """Rise over `warmup` updates, then stay."""
    return lambda step: _rise(step, warmup)


def cosine(warmup: int, total: int) -> Schedule:
    """Rise, then fall to zero at `total` along half a cosine: (1 + cos(π p)) / 2 with p the share of the way."""
    span = max(1, total - warmup)
    return lambda step: _rise(step, warmup) * 0.5 * (1 + math.cos(math.pi * _clip((step - warmup) / span)))


def linear(warmup: int, total: int) -> Schedule:
    """Rise, then fall to zero at `total` along a straight line."""
    span = max(1, total - warmup)
    return lambda step: _rise(step, warmup) * (1 - _clip((step - warmup) / span))


def inverse_sqrt(warmup: int, total: int) -> Schedule:
    """Rise, then fall as √(warmup / step)."""
    start = max(1, warmup)
    return lambda step: _rise(step, warmup) * math.sqrt(start / max(step, start))


def _rise(step: int, warmup: int) -> float:
    return min(1.0, step / warmup) if warmup else 1.0


def _clip(share: float) -> float:
    return min(1.0, max(0.0, share))


SCHEDULES: dict[str, Callable[[int, int], Schedule]] = {
    "constant": constant,
    "cosine": cosine,
    "inverse_sqrt": inverse_sqrt,
    "linear": linear,
}
