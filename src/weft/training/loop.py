"""The training loop: a generator of updates. Whoever iterates decides on logging, evaluation and stopping."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import nn

from weft.errors import Fault
from weft.tasks import Batch, Task
from weft.training.device import precise
from weft.training.optimizer import Schedule


@dataclass(frozen=True)
class Step:
    """One update: mean loss per predicted token, how many there were, the rate, the gradient's norm before clipping."""

    number: int
    loss: float
    tokens: int
    rate: float
    gradient: float
    seconds: float


def steps(
    model: nn.Module,
    task: Task,
    batches: Iterable[Batch],
    *,
    optimizer: torch.optim.Optimizer,
    schedule: Schedule,
    clip: float = 1.0,
    label_smoothing: float = 0.0,
    precision: str = "auto",
) -> Iterator[Step]:
    """Update the model once per batch and yield what happened."""
    device = next(model.parameters()).device
    peaks = [group["lr"] for group in optimizer.param_groups]
    for number, batch in enumerate(batches, 1):
        started = time.perf_counter()
        share = schedule(number)
        for group, peak in zip(optimizer.param_groups, peaks, strict=True):
            group["lr"] = peak * share
        model.train()
        optimizer.zero_grad(set_to_none=True)
        with precise(precision, device):
            loss = task.loss(model, batch.to(device), label_smoothing=label_smoothing)
        mean = loss.total / max(1, loss.count)
        mean.backward()  # type: ignore[no-untyped-call]
        value = mean.item()
        norm = float(nn.utils.clip_grad_norm_(model.parameters(), clip or math.inf))
        if not math.isfinite(norm):
            raise Fault(
                f"the gradient is not finite at update {number} (loss {value:.4g})",
                cure=f"lower train.rate, now {peaks[0]:g}, or set train.clip",
            )
        optimizer.step()
        yield Step(number, value, loss.count, peaks[0] * share, norm, time.perf_counter() - started)
