"""The training loop: a generator of updates. Whoever iterates decides on logging, evaluation and stopping.

On CUDA nothing here waits for the device: the next update is queued while the last one still runs. What must not
happen, an update by a gradient that is not finite, is left out by the device itself and told a little later.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor, nn

from weft.errors import Fault
from weft.tasks import Batch, Task
from weft.training.device import precise
from weft.training.gradients import Captured, Computed, Gradients
from weft.training.optimizer import Schedule
from weft.training.step import Awaited, Numbers, Step


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
    captured: bool = False,
) -> Iterator[Step]:
    """Update the model once per batch and yield what happened.

    `captured` runs batches of a shape seen before from a CUDA graph; it suits batches of a few shapes.
    """
    parameters = list(model.parameters())
    device = parameters[0].device

    def compute(batch: Batch, factor: Tensor | float) -> Tensor:
        with precise(precision, device):
            loss = task.loss(model, batch, label_smoothing=label_smoothing)
        mean = loss.total * factor
        mean.backward()  # type: ignore[no-untyped-call]
        return mean.detach()

    gradients: Gradients = Captured(compute, parameters, device) if captured else Computed(compute, device)
    deferred = device.type == "cuda" and can_skip(optimizer)
    peaks = [group["lr"] for group in optimizer.param_groups]
    unchecked = Awaited()
    model.train()
    began = time.perf_counter()
    for number, batch in enumerate(batches, 1):
        share = schedule(number)
        for group, peak in zip(optimizer.param_groups, peaks, strict=True):
            group["lr"] = peak * share
        if not model.training:  # whoever iterates may have measured it
            model.train()
        optimizer.zero_grad(set_to_none=True)
        mean = gradients(batch)
        norm = clip_gradients(parameters, clip)
        numbers = Numbers.of(mean, norm)
        if not deferred:
            check_finite(number, numbers, peaks[0])
            optimizer.step()
        else:
            step_if_finite(optimizer, norm)
        step = Step(number, batch.count, peaks[0] * share, time.perf_counter() - began, numbers)
        if deferred:
            unchecked.add(step)
            for earlier in unchecked.arrived():
                check_finite(earlier.number, earlier.numbers, peaks[0])
        yield step
        began = time.perf_counter()
    for earlier in unchecked.all():
        check_finite(earlier.number, earlier.numbers, peaks[0])


def can_skip(optimizer: torch.optim.Optimizer) -> bool:
    """Whether the optimizer leaves out an update where its `found_inf`, a number on the device, is 1: fused ones do."""
    return all(group.get("fused") for group in optimizer.param_groups)


def step_if_finite(optimizer: torch.optim.Optimizer, norm: Tensor) -> None:
    """Update the model unless the norm is not finite, without asking the device which it is."""
    optimizer.found_inf = norm.isfinite().logical_not().float()  # type: ignore[attr-defined]
    optimizer.step()
    optimizer.found_inf = None  # type: ignore[attr-defined]


def clip_gradients(parameters: list[nn.Parameter], clip: float) -> Tensor:
    """Scale the gradients to a norm of at most `clip`, unless that is 0; gives the norm before, on the device."""
    if clip:
        return nn.utils.clip_grad_norm_(parameters, clip)
    return nn.utils.get_total_norm([parameter.grad for parameter in parameters if parameter.grad is not None])


def check_finite(number: int, numbers: Numbers, rate: float) -> None:
    loss, gradient = numbers.read()
    if not math.isfinite(gradient):
        raise Fault(
            f"the gradient is not finite at update {number} (loss {loss:.4g})",
            cure=f"lower train.rate, now {rate:g}, or set train.clip",
        )
