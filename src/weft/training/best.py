"""The best model so far, when to stop looking for a better one, and the mean of the last few."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping

import torch
from torch import Tensor, nn


class Best:
    """Keeps the weights of the best validation in memory.

    The better metric wins; among equals the lower loss, and among equals in both the earlier model. `stale` once
    `patience` validations in a row brought neither a better metric nor a lower loss than ever before. With `last` every
    model is taken and training is never stale, for validation data that is too little to choose by.
    """

    def __init__(self, *, lower_is_better: bool, patience: int, last: bool = False) -> None:
        self.sign = -1.0 if lower_is_better else 1.0
        self.patience, self.last = patience, last
        self.score = self.loss = math.nan
        self.lowest = math.inf
        """The lowest loss of any model so far, which need not be that of the best."""
        self.step = 0
        self.since = 0
        self.weights: dict[str, Tensor] = {}

    @property
    def stale(self) -> bool:
        return self.since >= self.patience and not self.last

    def offer(self, score: float, step: int, model: nn.Module, *, loss: float = math.nan) -> bool:
        """Take a copy of the model if it is better than those before; say whether it was taken."""
        better = not self.weights or self.improves(score, loss=loss)
        lower = loss < self.lowest
        self.since = 0 if better or lower else self.since + 1
        self.lowest = loss if lower else self.lowest
        if not better and not self.last:
            return False
        self.score, self.loss, self.step = score, loss, step
        self.keep(model)
        return True

    def keep(self, model: nn.Module) -> None:
        self.weights = copy_weights(model)

    def improves(self, score: float, *, loss: float = math.nan) -> bool:
        """Whether a score is better than that of the best model so far, or as good with a lower loss."""
        if math.isnan(self.score):
            return not math.isnan(score)
        gain = self.sign * (score - self.score)
        return gain > 0 or (gain == 0 and loss < self.loss)

    def state(self) -> dict[str, float]:
        """All but the weights, which are kept as a file of their own."""
        names = ("score", "loss", "lowest", "step", "since")
        return {name: getattr(self, name) for name in names}

    def resume(self, state: Mapping[str, float]) -> None:
        """Go on from what `state` gave; a checkpoint from before losses were kept counts any loss as lower."""
        self.score, self.step, self.since = state["score"], int(state["step"]), int(state["since"])
        self.loss, self.lowest = state.get("loss", math.inf), state.get("lowest", math.inf)

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
    """In memory of their own, away from the device; those that are tied in the model share theirs."""
    tensors = model.state_dict(keep_vars=True)
    alone = {id(tensor): tensor for tensor in tensors.values()}
    copies = {
        key: tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
        for key, tensor in alone.items()
    }
    return {name: copies[id(tensor)] for name, tensor in tensors.items()}
