"""The best model so far, and when to stop looking for a better one."""

from __future__ import annotations

import math

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
        self.weights = {name: tensor.detach().cpu().clone() for name, tensor in model.state_dict().items()}
        return True

    def restore(self, model: nn.Module) -> None:
        with torch.no_grad():
            model.load_state_dict(self.weights)
