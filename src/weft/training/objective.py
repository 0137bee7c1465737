"""The objective of a training: the loss of the task, or a variant of it that the settings select."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from torch import nn

from weft.tasks import Loss, Task
from weft.training.config import TrainConfig
from weft.training.forcing import ConstantForcing, ScheduledSampling
from weft.training.streams import Carry


class Objective(Protocol):
    """Computes the loss of a batch: a task, or a wrapper around one."""

    def loss(self, model: nn.Module, batch: Any, *, label_smoothing: float = 0.0) -> Loss: ...


@runtime_checkable
class Paced(Protocol):
    """An objective that depends on the number of the update."""

    def begin(self, number: int) -> None:
        """Prepare for the update of that number, counted from 1."""


def build_objective(task: Task, model: nn.Module, settings: TrainConfig) -> Objective:
    """Build the objective that the settings describe. Plain teacher forcing is the task itself, without a wrapper."""
    if settings.truncate is not None:
        return Carry(task, model, truncate=settings.truncate)
    forcing = settings.teacher_forcing
    if forcing == 1.0:
        return task
    return ScheduledSampling(task, ConstantForcing(p=forcing) if isinstance(forcing, float) else forcing)
