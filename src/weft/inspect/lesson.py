"""One input with its answer, ready to be read by a model: the start of every view of what happens inside it."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from weft.errors import ConfigError
from weft.models import FittedModel
from weft.run import Run
from weft.tasks.lessons import Lesson


class Taught(NamedTuple):
    """A lesson with its answer in words; `given` if the user wrote it, and not the model."""

    lesson: Lesson
    answer: str
    given: bool


def prepare_lesson(run: Run, text: Any, target: str | None = None) -> Taught:
    """Return the input with its answer: `target`, or the model's own prediction.

    The answer of a language model is its text, that of a forecast the end of its series, of which it reads what comes
    before. A series is given as to `predict`: a table, its path, or a list of numbers; of several the first is read.
    The model is left in evaluation mode, in which nothing is random.
    """
    if isinstance(run.model, FittedModel):
        what = "has neither states nor gradients"
        raise ConfigError(
            what, where=f'model.kind = "{getattr(run.config.model, "kind", "")}"', cure="neural models have them"
        )
    run.model.eval()
    given = run.task.read_inputs(text)
    record = run.record(text) if given is None else given[0] if isinstance(given, list) else given
    answer: Any = target if target is not None else None if run.task.has_answer else run.predict(record)
    record = record if answer is None else run.task.answered(record, answer)
    return Taught(run.task.lesson(run.model, record), "" if answer is None else str(answer), target is not None)


def loss_of(run: Run, taught: Taught) -> Tensor:
    """Run the model on a lesson as training does, but without dropout, and return the loss, a sum over predictions."""
    total: Tensor = run.task.loss(run.model, taught.lesson.batch).total
    return total


def read_lesson(run: Run, taught: Taught) -> None:
    """Run the model on a lesson without gradients, for those who record what happens inside it."""
    with torch.no_grad():
        loss_of(run, taught)


def kind_of(run: Any) -> str:
    """Name a model for a sentence: 'a model of kind "ngram"'."""
    config = getattr(run, "config", None)
    kind = getattr(getattr(config, "model", None), "kind", "") if config is not None else type(run).__name__
    return f'a model of kind "{kind}"' if kind else "this model"
