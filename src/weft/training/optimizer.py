"""Optimizers by the names in a config file, weight decay, and frozen parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any

import torch
from torch import nn

from weft.errors import ConfigError

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "radam": torch.optim.RAdam,
    "sgd": torch.optim.SGD,
}


def build_optimizer(
    model: nn.Module,
    *,
    kind: str,
    rate: float,
    weight_decay: float,
    beta2: float = 0.999,
    momentum: float = 0.9,
    rates: Mapping[str, float] = MappingProxyType({}),
) -> torch.optim.Optimizer:
    """Build an optimizer. Weight decay applies to matrices only, not to biases and other vectors; `beta2` to Adams,
    `momentum` to SGD; `rates` are those of parameters, by their names, that differ from `rate`."""
    groups: dict[tuple[float, bool], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            groups.setdefault((rates.get(name, rate), parameter.dim() > 1), []).append(parameter)
    # Groups with the rate of the optimizer come first, and matrices before vectors.
    order = sorted(groups, key=lambda key: (key[0] != rate, -key[0], not key[1]))
    tables: list[dict[str, Any]] = [
        {"params": groups[own, matrix], "lr": own, "weight_decay": weight_decay if matrix else 0.0}
        for own, matrix in order
    ]
    # Fused: one kernel for all tensors of a group. RAdam has none.
    extra: dict[str, Any] = {"momentum": momentum} if kind == "sgd" else {"betas": (0.9, beta2)}
    if kind != "radam":
        extra["fused"] = True
    return OPTIMIZERS[kind](tables, lr=rate, **extra)


def freeze(model: nn.Module, patterns: Sequence[str]) -> int:
    """Freeze the parameters whose names match a pattern; returns how many numbers they have.

    They get no gradient, and an optimizer built afterwards ignores them. A tied parameter has several names; any of
    them freezes it.
    """
    named = dict(model.named_parameters(remove_duplicate=False))
    for pattern in patterns:
        matched = [parameter for name, parameter in named.items() if fnmatchcase(name, pattern)]
        if not matched:
            raise ConfigError(
                "no parameter has such a name", where=f'train.freeze = ["{pattern}"]', cure=_near(pattern, named)
            )
        for parameter in matched:
            parameter.requires_grad_(False)
    if patterns and not any(parameter.requires_grad for parameter in named.values()):
        shown = ", ".join(f'"{pattern}"' for pattern in patterns)
        raise ConfigError("nothing is left to learn", where=f"train.freeze = [{shown}]", cure="freeze less")
    return sum(parameter.numel() for parameter in model.parameters() if not parameter.requires_grad)


def _near(pattern: str, named: dict[str, nn.Parameter]) -> str:
    """The cure for a wrong pattern: the nearest names, or else the parts of the model."""
    near = get_close_matches(pattern.strip("*."), named, n=3, cutoff=0.5)
    parts = sorted({f"{name.split('.')[0]}.*" if "." in name else name for name in named})
    return f"near are {', '.join(near)}" if near else f"choose from {', '.join(parts)}"
