"""The best model so far, when to stop looking for a better one, and the mean of the last few."""

from __future__ import annotations

import math
from collections import deque

import torch
from torch import Tensor, nn


class Best:
    """Keeps the weights of the best validation in memory.

    `stale` once `patience` validations in a row brought nothing better.
    """

    def __init__(self, *, lower_is_better: bool, patience: int) -> None:
        self.sign = -1.0 if lower_is_better else 1.0
        self.patience = patience
        self.score = math.nan
        self.step = 0
        self.since = 0
        self.weights: dict[str, Tensor] = {}

    @property
    def stale(self) -> bool:
        return self.since >= self.patience

    def offer(self, score: float, step: int, model: nn.Module) -> bool:
        """Take a copy of the model if none before was better; say whether it was taken.

        Of equal scores the later one is taken, because a metric can stand at zero while a model still learns.
        """
        gain = math.inf if not self.weights else self.sign * (score - self.score)
        self.since = 0 if gain > 0 else self.since + 1
        if gain < 0 or math.isnan(gain):
            return False
        self.score, self.step = score, step
        self.keep(model)
        return True

    def keep(self, model: nn.Module) -> None:
        self.weights = copy_weights(model)

    def improves(self, score: float) -> bool:
        """Whether a score is better than the best so far."""
        return self.sign * (score - self.score) > 0

    def state(self) -> dict[str, float]:
        """All but the weights, which are kept as a file of their own."""
        return {"score": self.score, "step": self.step, "since": self.since}

    def restore(self, model: nn.Module) -> None:
        with torch.no_grad():
            model.load_state_dict(self.weights)


class Average:
    """The mean of the weights at the last `size` validations; with 0 nothing is kept."""

    def __init__(self, size: int) -> None:
        self.kept: deque[tuple[int, dict[str, Tensor]]] = deque(maxlen=size)

    @property
    def steps(self) -> list[int]:
        """The updates after which the weights were taken."""
        return [step for step, _ in self.kept]

    def take(self, step: int, model: nn.Module) -> None:
        if self.kept.maxlen:
            self.kept.append((step, copy_weights(model)))

    def mean(self) -> dict[str, Tensor]:
        """Of numbers with a fraction; whatever counts or points is that of the last model."""
        *_, (_, last) = self.kept
        return {
            name: torch.stack([weights[name].double() for _, weights in self.kept]).mean(0).to(tensor.dtype)
            if tensor.is_floating_point()
            else tensor
            for name, tensor in last.items()
        }


def copy_weights(model: nn.Module) -> dict[str, Tensor]:
    """In memory of their own, away from the device."""
    return {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, tensor in model.state_dict().items()
    }
