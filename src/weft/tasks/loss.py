"""The loss of a batch as a sum and a count, and the cross-entropy of labels."""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from weft.tasks.codec import UNSEEN


@dataclass(frozen=True)
class Loss:
    """The sum of the losses of some predictions, and their number; the mean is taken at the end of all batches."""

    total: Tensor
    count: int


def cross_entropy(
    logits: Tensor,
    targets: Tensor,
    *,
    count: int | None = None,
    label_smoothing: float = 0.0,
    weights: Tensor | None = None,
) -> Loss:
    """Sum of -log softmax(logits)[target] over logits (N, C) and targets (N), in float32, each times the weight of its
    target if there are weights (C).

    `count` says how many of the targets are not `UNSEEN`, which do not count; without it all are.
    """
    total = F.cross_entropy(
        logits.float(), targets, weights, ignore_index=UNSEEN, reduction="sum", label_smoothing=label_smoothing
    )
    return Loss(total, targets.numel() if count is None else count)
