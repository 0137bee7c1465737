"""What a model learns by: its task as it stands, or taught in one of the ways that settings ask for."""

from __future__ import annotations

from torch import nn

from weft.tasks import Task
from weft.training.config import TrainConfig
from weft.training.forcing import ConstantForcing, ScheduledSampling
from weft.training.loop import Objective
from weft.training.streams import Carry


def build_objective(task: Task, model: nn.Module, settings: TrainConfig) -> Objective:
    """The objective for the loop. Plain teacher forcing is the task itself, and costs nothing."""
    if settings.truncate is not None:
        return Carry(task, model, truncate=settings.truncate)
    forcing = settings.teacher_forcing
    if forcing == 1.0:
        return task
    return ScheduledSampling(task, ConstantForcing(p=forcing) if isinstance(forcing, float) else forcing)
