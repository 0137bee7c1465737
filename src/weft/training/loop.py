"""The training loop: a generator of updates. Whoever iterates decides on logging, evaluation and stopping.

On CUDA nothing here waits for the device: the next update is queued while the last one still runs. What must not
happen, an update by a gradient that is not finite, is left out by the device itself and told a little later.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, TypedDict, Unpack, runtime_checkable

import torch
from torch import Tensor, nn

from weft.data import chunks
from weft.tasks import Batch, Loss
from weft.tasks.task import Origin
from weft.training.device import precise
from weft.training.finite import Finite, can_skip, step_if_finite
from weft.training.fitting import Fitting, try_largest
from weft.training.gradients import Captured, Computed, Gradients
from weft.training.ranks import ALONE, Ranks
from weft.training.scaling import Scaling
from weft.training.schedule import Schedule
from weft.training.step import Awaited, Numbers, Step


class Objective(Protocol):
    """What is learned: a task, or a task taught in its own way."""

    def loss(self, model: nn.Module, batch: Any, *, label_smoothing: float = 0.0) -> Loss: ...


@runtime_checkable
class Paced(Protocol):
    """An objective that changes as training goes on."""

    def begin(self, number: int) -> None:
        """The update of that number, counted from 1, begins."""


class Options(TypedDict, total=False):
    """What may be said about updates; what is left out has the default that is named here."""

    clip: float
    """Largest norm of the gradient: 1. With 0 there is no bound."""
    clip_value: float
    """Largest size of any number of the gradient: 0, which is no bound."""
    label_smoothing: float
    """Share of the target's probability given to all other outcomes: 0."""
    precision: str
    """The numbers that the model computes in: auto, which is bf16 on CUDA and float32 elsewhere."""
    scaling: Scaling | None
    """What fp16 needs; made where it is missing."""
    captured: bool
    """Whether batches of a shape seen before run from a CUDA graph: they do not. It suits batches of a few shapes, and
    an objective that is the same for every update."""
    skip_bad: int
    """Updates in a row whose loss or gradient is not finite that are left out: 0, the first ends the training."""
    ranks: Ranks
    """The processes that train together, of whom each computes its share of an update's batches: this one alone. All
    are given all batches, so that all know what they count."""


def steps(
    model: nn.Module,
    objective: Objective,
    batches: Iterable[Batch],
    *,
    optimizer: torch.optim.Optimizer,
    schedule: Schedule,
    accumulate: int = 1,
    start: int = 0,
    largest: Batch | None = None,
    **options: Unpack[Options],
) -> Iterator[Step]:
    """Update the model once per `accumulate` batches, by the gradient of their union, and yield what happened.

    `start` updates have been made before: their batches are not given again, numbers and schedule go on after them.
    The `largest` batch is computed once before all others, to see whether it fits. A batch that does not fit into the
    memory of a GPU is computed in parts if it knows its origin, and else ends the training.
    """
    updates = Updates(model, objective, optimizer, schedule, **options)
    finite = updates.finite
    unchecked = Awaited()
    if largest is not None:
        updates.begin(start + 1)
        try_largest(updates.gradients, largest, model, optimizer)
    began = time.perf_counter()
    for number, group in enumerate(chunks(batches, accumulate), start + 1):
        rate = updates.begin(number)
        gathered = updates.gather(group)
        step = Step(number, gathered.tokens, rate, 0.0, gathered.numbers, gathered.origins)
        if updates.deferred:
            updates.apply(gathered)
            unchecked.add(step)
            told = [finite.check(earlier) for earlier in unchecked.arrived()]
        else:
            told = [finite.check(step)]
            updates.apply(gathered)
        notes = (*updates.gradients.take_notes(), *filter(None, told))
        yield replace(step, seconds=time.perf_counter() - began, notes=notes)
        began = time.perf_counter()
    for earlier in unchecked.all():
        finite.check(earlier)


class Gathered(NamedTuple):
    """What the batches of an update give before the model changes; mean and norm are on the device."""

    tokens: int
    mean: Tensor
    norm: Tensor
    numbers: Numbers
    origins: tuple[Origin, ...]


@dataclass(frozen=True)
class Pass:
    """Forward and backward through a model; nothing that keeps graphs of it is kept by it, so that both are let go."""

    model: nn.Module
    objective: Objective
    label_smoothing: float
    precision: str
    scaling: Scaling | None

    def __call__(self, batch: Batch, factor: Tensor | float) -> Tensor:
        with precise(self.precision, next(self.model.parameters()).device):
            loss = self.objective.loss(self.model, batch, label_smoothing=self.label_smoothing)
        mean = loss.total * factor
        (mean if self.scaling is None else self.scaling.scale(mean)).backward()  # type: ignore[no-untyped-call]
        return mean.detach()


class Updates:
    """The parts of an update, each a few lines: its rate, its gradients, the change of the model."""

    def __init__(
        self,
        model: nn.Module,
        objective: Objective,
        optimizer: torch.optim.Optimizer,
        schedule: Schedule,
        **options: Unpack[Options],
    ) -> None:
        self.model, self.objective, self.optimizer, self.schedule = model, objective, optimizer, schedule
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.device = self.parameters[0].device
        self.clip, self.clip_value = options.get("clip", 1.0), options.get("clip_value", 0.0)
        precision, self.scaling = options.get("precision", "auto"), options.get("scaling")
        if precision == "fp16" and self.scaling is None:
            self.scaling = Scaling(self.device)
        self.ranks = options.get("ranks", ALONE)
        self.peaks: list[float] = [group.setdefault("initial_lr", group["lr"]) for group in optimizer.param_groups]
        # With scaling it is the scaler that leaves out what is not finite.
        self.deferred = self.device.type == "cuda" and (self.scaling is not None or can_skip(optimizer))
        self.finite = Finite(rate=self.peaks[0], skip_bad=options.get("skip_bad", 0), scaled=self.scaling is not None)
        compute = Pass(model, objective, options.get("label_smoothing", 0.0), precision, self.scaling)
        ways: list[Gradients] = [Computed(compute, self.parameters, self.device)]
        if options.get("captured", False) and not isinstance(objective, Paced):
            ways.insert(0, Captured(compute, self.parameters, self.device))
        self.gradients = Fitting(ways, self.device, splits=self.ranks.size == 1)

    def begin(self, number: int) -> float:
        """Make all ready for the update of that number; gives its rate."""
        share = self.schedule(number)
        for settings, peak in zip(self.optimizer.param_groups, self.peaks, strict=True):
            settings["lr"] = peak * share
        if not self.model.training:  # whoever iterates may have measured it
            self.model.train()
        if isinstance(self.objective, Paced):
            self.objective.begin(number)
        self.optimizer.zero_grad(set_to_none=True)
        return self.peaks[0] * share

    def gather(self, group: Sequence[Batch]) -> Gathered:
        """Leave the gradient of the batches' union in the model, clipped."""
        count = sum(batch.count for batch in group)
        mine = self.ranks.share(group)
        means = [self.gradients(batch, 1 / max(1, count)) for batch in mine]
        self.ranks.sum_gradients(self.parameters)
        if self.scaling is not None:
            self.scaling.unscale(self.optimizer)
        norm = clip_gradients(self.parameters, self.clip, value=self.clip_value)
        parts = [] if len(group) == 1 else means
        mean = self.ranks.sum(torch.stack(means).sum() if parts else means[0])
        origins = tuple(batch.origin for batch in mine if batch.origin is not None)
        return Gathered(sum(batch.token_count for batch in group), mean, norm, Numbers.of(mean, norm, *parts), origins)

    def apply(self, gathered: Gathered) -> None:
        """Change the model, unless what was gathered is not finite."""
        if self.scaling is not None:
            self.scaling.step(self.optimizer, gathered.mean)
        elif self.deferred:
            step_if_finite(self.optimizer, gathered.mean + gathered.norm)
        elif gathered.numbers.finite:
            self.optimizer.step()


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
