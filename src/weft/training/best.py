"""The best model so far, early stopping, and the mean of the last few models."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping

import torch
from torch import Tensor, nn


class Best:
    """Keeps the weights of the best validation in memory.

    The model with the better metric is the best; of equals that with the lower loss, and then the earlier one. Training
    is `stale` after `patience` validations in a row without a new best metric or a new lowest loss. With `last` every
    model is taken and training is never stale, for validation data that is too small to choose by.
    """

    def __init__(self, *, lower_is_better: bool, patience: int, last: bool = False) -> None:
        self.sign = -1.0 if lower_is_better else 1.0
        self.patience, self.last = patience, last
        self.score = self.loss = math.nan
        self.lowest = math.inf
        """The lowest loss so far, of the best model or another."""
        self.step = 0
        self.since = 0
        self.weights: dict[str, Tensor] = {}

    @property
    def stale(self) -> bool:
        return self.since >= self.patience and not self.last

    def offer(self, score: float, step: int, model: nn.Module, *, loss: float = math.nan) -> bool:
        """Copy the model if it is the best so far; returns whether it was copied."""
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
        """Whether a score is better than that of the best model so far, or equal with a lower loss."""
        if math.isnan(self.score):
            return not math.isnan(score)
        gain = self.sign * (score - self.score)
        return gain > 0 or (gain == 0 and loss < self.loss)

    def state(self) -> dict[str, float]:
        """The values for a checkpoint; the weights are a file of their own."""
        names = ("score", "loss", "lowest", "step", "since")
        return {name: getattr(self, name) for name in names}

    def resume(self, state: Mapping[str, float]) -> None:
        """Restore what `state` returned. Old checkpoints have no losses; any loss is then lower."""
        self.score, self.step, self.since = state["score"], int(state["step"]), int(state["since"])
        self.loss, self.lowest = state.get("loss", math.inf), state.get("lowest", math.inf)

    def restore(self, model: nn.Module) -> None:
        with torch.no_grad():
            model.load_state_dict(self.weights)


class Average:
    """The mean of the weights at the last `size` validations; with 0 none are kept."""

    def __init__(self, size: int) -> None:
        self.kept: deque[tuple[int, dict[str, Tensor]]] = deque(maxlen=size)

    @property
    def steps(self) -> list[int]:
        """The numbers of the updates after which the weights were copied."""
        return [step for step, _ in self.kept]

    def take(self, step: int, model: nn.Module) -> None:
        if self.kept.maxlen:
            self.kept.append((step, copy_weights(model)))

    def mean(self) -> dict[str, Tensor]:
        """Return the mean of floating-point tensors; integers are those of the last model."""
        *_, (_, last) = self.kept
        return {
            name: torch.stack([weights[name].double() for _, weights in self.kept]).mean(0).to(tensor.dtype)
            if tensor.is_floating_point()
            else tensor
            for name, tensor in last.items()
        }


def copy_weights(model: nn.Module) -> dict[str, Tensor]:
    """Copy the weights to host memory; tied ones share one copy."""
    tensors = model.state_dict(keep_vars=True)
    alone = {id(tensor): tensor for tensor in tensors.values()}
    copies = {
        key: tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
        for key, tensor in alone.items()
    }
    return {name: copies[id(tensor)] for name, tensor in tensors.items()}
