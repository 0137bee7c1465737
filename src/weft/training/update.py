"""One update of a model: learning rate, forward and backward passes, clipping, the optimizer's step, and its check.

On CUDA none of this blocks. The device itself skips an update whose loss or gradient is not finite, and the check reads
the numbers of an update when they have arrived, a few updates later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from weft.errors import ConfigError
from weft.tasks import Batch, Loss
from weft.tasks.task import Origin
from weft.training.device import precise
from weft.training.events import Awaited, Update
from weft.training.finite import Finite, can_skip, step_if_finite
from weft.training.fitting import Fitting
from weft.training.gradients import Captured, Computed, Gradients
from weft.training.numbers import Numbers
from weft.training.objective import Objective, Paced
from weft.training.ranks import ALONE, Ranks
from weft.training.scaling import Scaling
from weft.training.schedule import Schedule


@dataclass(frozen=True, kw_only=True)
class LoopOptions:
    """How the loop computes its updates."""

    accumulate: int = 1
    """Batches that make one update."""
    clip: float = 1.0
    """Largest norm of the gradient; 0 sets no bound."""
    clip_value: float = 0.0
    """Largest size of any number of the gradient; 0 sets no bound."""
    label_smoothing: float = 0.0
    """Share of the target's probability given to all other outcomes."""
    precision: str = "auto"
    """The number format of the forward pass; auto is bf16 on CUDA and float32 elsewhere."""
    scaling: Scaling | None = None
    """Loss scaling, for fp16; built if it is missing there."""
    captured: bool = False
    """Replay batches of a known shape from a CUDA graph. It suits batches of a few shapes; a paced objective, which
    differs from update to update, is never captured."""
    skip_bad: int = 0
    """Updates in a row that may be skipped because loss or gradient is not finite; with 0 the first ends the run."""
    frozen: Sequence[tuple[int, nn.Parameter]] = ()
    """Parameters that begin to learn later, each with the first update that changes it."""
    ranks: Ranks = ALONE
    """The processes that train together. Each is given all batches of an update and computes its share of them."""


class Gathered(NamedTuple):
    """The sums over the batches of an update, before the model changes; mean and norm are on the device."""

    tokens: int
    mean: Tensor
    norm: Tensor
    numbers: Numbers
    origins: tuple[Origin, ...]


@dataclass(frozen=True)
class Pass:
    """Forward and backward through a model. It holds no reference to the graphs of either, so their memory is freed."""

    model: nn.Module
    objective: Objective
    label_smoothing: float
    precision: str
    scaling: Scaling | None

    def __call__(self, batch: Batch, factor: Tensor | float) -> Tensor:
        with precise(self.precision, next(self.model.parameters()).device):
            loss = self.objective.loss(self.model, batch, label_smoothing=self.label_smoothing)
        if not isinstance(loss, Loss):
            what = f"returns {type(loss).__name__}, not weft.tasks.Loss"
            cure = "return Loss(total, count): the sum over the batch, and the number of its predictions"
            raise ConfigError(what, where=f"{type(self.objective).__name__}.loss", cure=cure)
        mean = loss.total * factor
        (mean if self.scaling is None else self.scaling.scale(mean)).backward()  # type: ignore[no-untyped-call]
        return mean.detach()


class Updater:
    """The parts of an update, in the order of their calls: `begin`, `gather`, `apply`."""

    def __init__(
        self,
        model: nn.Module,
        objective: Objective,
        *,
        optimizer: torch.optim.Optimizer,
        schedule: Schedule,
        options: LoopOptions,
    ) -> None:
        self.model, self.objective, self.optimizer, self.schedule = model, objective, optimizer, schedule
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.device = self.parameters[0].device
        self.clip, self.clip_value, self.ranks = options.clip, options.clip_value, options.ranks
        self.scaling = options.scaling
        if options.precision == "fp16" and self.scaling is None:
            self.scaling = Scaling(self.device)
        self.frozen = options.frozen
        self.rate: float = optimizer.defaults["lr"]
        self.peaks: list[float] = [group.setdefault("initial_lr", group["lr"]) for group in optimizer.param_groups]
        # With scaling it is the scaler that skips an update that is not finite.
        self.deferred = self.device.type == "cuda" and (self.scaling is not None or can_skip(optimizer))
        self.finite = Finite(rate=self.rate, skip_bad=options.skip_bad, scaled=self.scaling is not None)
        self.unchecked = Awaited()
        compute = Pass(model, objective, options.label_smoothing, options.precision, self.scaling)
        ways: list[Gradients] = [Computed(compute, self.parameters, self.device)]
        if options.captured and not isinstance(objective, Paced):
            ways.insert(0, Captured(compute, self.parameters, self.device))
        self.gradients = Fitting(ways, self.device, splits=self.ranks.size == 1)

    def begin(self, number: int) -> float:
        """Prepare for the update of that number and return its learning rate."""
        share = self.schedule(number)
        for settings, peak in zip(self.optimizer.param_groups, self.peaks, strict=True):
            settings["lr"] = peak * share
        if not self.model.training:  # an evaluation between two updates leaves it in evaluation mode
            self.model.train()
        if isinstance(self.objective, Paced):
            self.objective.begin(number)
        self.frozen = [(first, parameter) for first, parameter in self.frozen if number < first]
        self.optimizer.zero_grad(set_to_none=True)
        return self.rate * share

    def gather(self, group: Sequence[Batch]) -> Gathered:
        """Leave in the model the clipped gradient of the mean loss over all batches of the group."""
        count = sum(batch.count for batch in group)
        mine = self.ranks.share(group)
        means = [self.gradients(batch, 1 / max(1, count)) for batch in mine]
        self.ranks.sum_gradients(self.parameters)
        for _, parameter in self.frozen:
            parameter.grad = None
        if self.scaling is not None:
            self.scaling.unscale(self.optimizer)
        norm = clip_gradients(self.parameters, self.clip, value=self.clip_value)
        parts = [] if len(group) == 1 else means
        mean = self.ranks.sum(torch.stack(means).sum() if parts else means[0])
        origins = tuple(batch.origin for batch in mine if batch.origin is not None)
        return Gathered(sum(batch.token_count for batch in group), mean, norm, Numbers.of(mean, norm, *parts), origins)

    def apply(self, gathered: Gathered, update: Update) -> tuple[str, ...]:
        """Change the model, unless loss or gradient is not finite; return notes for the user.

        Raises a Fault if too many updates in a row were not finite. Where the device skips such an update by itself,
        the check covers only the updates whose numbers have arrived by now.
        """
        if self.deferred:
            self._step(gathered)
            self.unchecked.add(update)
            checked = [self.finite.check(earlier) for earlier in self.unchecked.arrived()]
        else:
            checked = [self.finite.check(update)]
            self._step(gathered)
        return (*self.gradients.take_notes(), *filter(None, checked))

    def check_rest(self) -> None:
        """Check the updates that were not checked yet; blocks until their numbers have arrived."""
        for earlier in self.unchecked.all():
            self.finite.check(earlier)

    def _step(self, gathered: Gathered) -> None:
        if self.scaling is not None:
            self.scaling.step(self.optimizer, gathered.mean)
        elif self.deferred:
            step_if_finite(self.optimizer, gathered.mean + gathered.norm)
        elif gathered.numbers.finite:
            self.optimizer.step()


def clip_gradients(parameters: list[nn.Parameter], clip: float, *, value: float = 0.0) -> Tensor:
    """Scale the gradients to a norm of at most `clip`, then bound each number of them by `value`; 0 turns either off.

    Returns the norm before both, on the device. It comes first: the bound makes an infinite number finite.
    """
    if clip:
        norm = nn.utils.clip_grad_norm_(parameters, clip)
    else:
        norm = nn.utils.get_total_norm([parameter.grad for parameter in parameters if parameter.grad is not None])
    if value:
        nn.utils.clip_grad_value_(parameters, value)
    return norm
