"""Calibration of probabilities: its error, and the temperature that reduces it (Guo et al., 2017).

    p = softmax(z / T)          T = argmin Σ -ln p(label) + (ln T)² / 2          error = Σ_bins |right - Σ p| / N

The last term of the minimum weighs less than one example: without it T would run to its bound where all are right.

Few examples may ask for a temperature that others do not confirm. So each half of them is also scored with the
temperature of the other half, and T stays 1 unless the mean loss falls by more than its standard error.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from weft.metrics.scores import ratio

BINS = 15
"""Equal steps of the probability of the predicted label."""

MIN_EXAMPLES = 50
"""With fewer examples a temperature would fit their noise."""

TEMPERATURE_BOUNDS = (0.05, 20.0)
"""The range of temperatures."""

_GOLDEN = (math.sqrt(5) - 1) / 2


class Reliability:
    """Counts how often the predicted label is right, by its probability; logits are multiplied by `scale` before."""

    def __init__(self, scale: float = 1.0) -> None:
        self.scale = scale
        self._count, self._right = np.zeros(BINS, dtype=np.int64), np.zeros(BINS, dtype=np.int64)
        self._sum = np.zeros(BINS)

    def add(self, logits: Tensor, labels: Tensor) -> None:
        """logits (N, C) and labels (N), or (N, C) of several at once; a label of -1 is never right."""
        logits, labels = single_choices(logits, labels)
        shares, predicted = (logits.detach().double() * self.scale).softmax(-1).nan_to_num().max(-1)
        bins = (shares * BINS).long().clamp(max=BINS - 1).cpu().numpy()
        np.add.at(self._count, bins, 1)
        np.add.at(self._right, bins, (predicted == labels).cpu().numpy())
        np.add.at(self._sum, bins, shares.cpu().numpy())

    def merge(self, other: Reliability) -> None:
        """Add everything that another one has counted."""
        self._count += other._count
        self._right += other._right
        self._sum += other._sum

    @property
    def error(self) -> float:
        """Expected calibration error: the mean distance between the share of right labels and their probability."""
        return ratio(float(np.abs(self._right - self._sum).sum()), int(self._count.sum()))


def single_choices(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """logits (N, C) with labels (N) as they are; with several labels at once (N, C), a choice between no and yes for
    each of them: σ(z) is the softmax of (0, z)."""
    if labels.dim() == 1:
        return logits, labels
    flat = logits.reshape(-1)
    return torch.stack([torch.zeros_like(flat), flat], dim=-1), labels.reshape(-1).long()


def fit_temperature(logits: Tensor, labels: Tensor) -> float:
    """The temperature of logits (N, C) whose labels (N), or several at once (N, C), are known; 1 where the examples are
    too few, or do not confirm another one."""
    if len(labels) < MIN_EXAMPLES:
        return 1.0
    logits, labels = logits.detach().double().cpu(), labels.cpu()
    return _least_cost(logits, labels) if _lowers_loss(logits, labels) else 1.0


def _lowers_loss(logits: Tensor, labels: Tensor) -> bool:
    """Whether the temperature of each half of the examples lowers the loss of the other half, by more in the mean than
    the standard error of the differences."""
    halves = [slice(start, None, 2) for start in (0, 1)]
    gains = []
    for fitted, scored in (halves, halves[::-1]):
        temperature = _least_cost(logits[fitted], labels[fitted])
        own, known = logits[scored], labels[scored]
        gains.append(_losses(own, known) - _losses(own / temperature, known))
    gain = torch.cat(gains)
    return float(gain.mean()) > float(gain.std()) / math.sqrt(len(gain))


def _losses(logits: Tensor, labels: Tensor) -> Tensor:
    """The loss of each example (N); of several labels at once, summed over them."""
    choices, numbers = single_choices(logits, labels)
    losses = torch.nn.functional.cross_entropy(choices, numbers, reduction="none")
    return losses.view(len(labels), -1).sum(1)


def _least_cost(logits: Tensor, labels: Tensor) -> float:
    """The temperature at the minimum of the cost above."""

    def cost(log: float) -> float:
        return float(_losses(logits / math.exp(log), labels).sum()) + log * log / 2

    # Golden section: the cost has one minimum, and each step keeps one of the two inner points.
    low, high = map(math.log, TEMPERATURE_BOUNDS)
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = cost(left), cost(right)
    while high - low > 1e-4:
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = cost(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = cost(right)
    return math.exp((low + high) / 2)
