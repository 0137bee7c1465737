"""The training loop: a generator of updates. Whoever iterates decides on logging, evaluation and stopping.

On CUDA nothing here waits for the device: the next update is queued while the last one still runs. What must not
happen, an update by a gradient that is not finite, is left out by the device itself and told a little later.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from typing import Any, Final, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from weft.data import chunks
from weft.errors import Fault
from weft.tasks import Batch, Loss
from weft.training.device import precise
from weft.training.gradients import Captured, Computed, Gradients
from weft.training.ranks import ALONE, Ranks
from weft.training.scaling import Scaling
from weft.training.schedule import Schedule
from weft.training.step import Awaited, Numbers, Step

SKIPPED: Final = 50
"""Updates in a row that loss scaling may leave out; it starts with one too large and halves it until all is finite."""


class Objective(Protocol):
    """What is learned: a task, or a task taught in its own way."""

    def loss(self, model: nn.Module, batch: Any, *, label_smoothing: float = 0.0) -> Loss: ...


@runtime_checkable
class Paced(Protocol):
    """An objective that changes as training goes on."""

    def begin(self, number: int) -> None:
        """The update of that number, counted from 1, begins."""


def steps(
    model: nn.Module,
    objective: Objective,
    batches: Iterable[Batch],
    *,
    optimizer: torch.optim.Optimizer,
    schedule: Schedule,
    clip: float = 1.0,
    clip_value: float = 0.0,
    label_smoothing: float = 0.0,
    precision: str = "auto",
    scaling: Scaling | None = None,
    captured: bool = False,
    accumulate: int = 1,
    start: int = 0,
    ranks: Ranks = ALONE,
) -> Iterator[Step]:
    """Update the model once per `accumulate` batches, by the gradient of their union, and yield what happened.

    `start` updates have been made before: their batches are not given again, numbers and schedule go on after them.
    `scaling` is what fp16 needs, and is made where it is missing. `captured` runs batches of a shape seen before from a
    CUDA graph; it suits batches of a few shapes, and an objective that is the same for every update. Of the batches of
    an update each of several `ranks` computes its share; all are given all of them, so that all know what they count.
    """
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    device = parameters[0].device
    if precision == "fp16" and scaling is None:
        scaling = Scaling(device)

    def compute(batch: Batch, factor: Tensor | float) -> Tensor:
        with precise(precision, device):
            loss = objective.loss(model, batch, label_smoothing=label_smoothing)
        mean = loss.total * factor
        (mean if scaling is None else scaling.scale(mean)).backward()  # type: ignore[no-untyped-call]
        return mean.detach()

    captured = captured and not isinstance(objective, Paced)
    gradients: Gradients = Captured(compute, parameters, device) if captured else Computed(compute, device)
    # With scaling it is the scaler that leaves out what is not finite.
    deferred = device.type == "cuda" and (scaling is not None or can_skip(optimizer))
    peaks = [group.setdefault("initial_lr", group["lr"]) for group in optimizer.param_groups]
    finite = Finite(rate=peaks[0], skipped=0 if scaling is None else SKIPPED)
    unchecked = Awaited()
    model.train()
    began = time.perf_counter()
    for number, group in enumerate(chunks(batches, accumulate), start + 1):
        share = schedule(number)
        for settings, peak in zip(optimizer.param_groups, peaks, strict=True):
            settings["lr"] = peak * share
        if not model.training:  # whoever iterates may have measured it
            model.train()
        if isinstance(objective, Paced):
            objective.begin(number)
        optimizer.zero_grad(set_to_none=True)
        count = sum(batch.count for batch in group)
        means = [gradients(batch, 1 / max(1, count)) for batch in ranks.share(group)]
        ranks.sum_gradients(parameters)
        if scaling is not None:
            scaling.unscale(optimizer)
        norm = clip_gradients(parameters, clip, value=clip_value)
        mean = ranks.sum(means[0] if len(means) == 1 else torch.stack(means).sum())
        numbers = Numbers.of(mean, norm)
        if not deferred:
            finite.check(number, numbers)
        if scaling is not None:
            scaling.step(optimizer)
        elif deferred:
            step_if_finite(optimizer, norm)
        else:
            optimizer.step()
        step = Step(number, count, peaks[0] * share, time.perf_counter() - began, numbers)
        if deferred:
            unchecked.add(step)
            for earlier in unchecked.arrived():
                finite.check(earlier.number, earlier.numbers)
        yield step
        began = time.perf_counter()
    for earlier in unchecked.all():
        finite.check(earlier.number, earlier.numbers)


def can_skip(optimizer: torch.optim.Optimizer) -> bool:
    """Whether the optimizer leaves out an update where its `found_inf`, a number on the device, is 1: fused ones do."""
    return all(group.get("fused") for group in optimizer.param_groups)


def step_if_finite(optimizer: torch.optim.Optimizer, norm: Tensor) -> None:
    """Update the model unless the norm is not finite, without asking the device which it is."""
    optimizer.found_inf = norm.isfinite().logical_not().float()  # type: ignore[attr-defined]
    optimizer.step()
    optimizer.found_inf = None  # type: ignore[attr-defined]


def clip_gradients(parameters: list[nn.Parameter], clip: float, *, value: float = 0.0) -> Tensor:
    """Scale the gradients to a norm of at most `clip`, then bound each number of them by `value`; 0 leaves either out.

    Gives the norm before, on the device. It comes first, because a bound would make a finite number of an infinite one.
    """
    if clip:
        norm = nn.utils.clip_grad_norm_(parameters, clip)
    else:
        norm = nn.utils.get_total_norm([parameter.grad for parameter in parameters if parameter.grad is not None])
    if value:
        nn.utils.clip_grad_value_(parameters, value)
    return norm


class Finite:
    """Ends a training whose gradients are not finite: at the first, or after `skipped` in a row that were left out."""

    def __init__(self, *, rate: float, skipped: int = 0) -> None:
        self.rate, self.skipped, self.row = rate, skipped, 0

    def check(self, number: int, numbers: Numbers) -> None:
        loss, gradient = numbers.read()
        self.row = 0 if math.isfinite(gradient) else self.row + 1
        if self.row > self.skipped or (self.row and not math.isfinite(loss)):
            wider = ', or use train.precision = "bf16" or "float32"' if self.skipped else ""
            raise Fault(
                f"the gradient is not finite at update {number} (loss {loss:.4g})",
                cure=f"lower train.rate, now {self.rate:g}, or set train.clip{wider}",
            )
