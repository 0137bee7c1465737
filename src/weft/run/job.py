"""One training and its parts: the model on its device, the learner, the saver, and how long it is to train."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import torch
from torch import Tensor, nn

from weft.config.schema import check_metric
from weft.disk import sync
from weft.errors import ConfigError, did_you_mean
from weft.evaluate import Evaluation, evaluate
from weft.models import FitOptions, FittedModel
from weft.run.embeddings import fill_embeddings
from weft.run.fitted_learner import FittedLearner
from weft.run.folder.checkpoint import Checkpoints
from weft.run.folder.files import JOURNAL
from weft.run.folder.save import ModelFiles, Saver, save_run
from weft.run.learner import Learner, Plan, build_plan
from weft.run.model_size import check_fits
from weft.run.prepare import Prepared
from weft.run.resume import journal_size
from weft.run.train_state import TrainState
from weft.run.transfer import Taken, take_weights
from weft.tasks import Task, Tree
from weft.training import choose_device, compile_model, freeze, keep_memory, set_seed, set_threads
from weft.training.compilation import Compilation
from weft.training.ranks import ALONE, Ranks

MAX_UPDATES_BETWEEN_VALIDATIONS = 1000
"""Updates after which a model is validated even if the epoch is longer."""

MAX_VALIDATIONS = 60
"""Validations at most where epochs are shorter than that: a few lines of text have thousands of epochs."""

FEW_TOKENS = 1000
"""Validation data with less, and with fewer examples than the task wants, is too small to choose the best model by."""


AnyLearner: TypeAlias = Learner | FittedLearner


@dataclass(frozen=True)
class Setup:
    """A training that is built: `total` updates, `per_epoch` of them an epoch, a validation after `every` updates."""

    device: torch.device
    model: nn.Module
    plan: Plan | None
    """The batches; None for a model that fits itself."""
    learner: AnyLearner
    compilation: Compilation
    metric: str
    """The validation metric that chooses the best model."""
    lower_is_better: bool
    keep_last: bool
    """Whether the last model is kept whatever its score, because there is too little validation data."""
    per_epoch: int
    total: int
    every: int
    notes: tuple[str, ...] = ()
    """Notes for the user on how the model was built."""
    new: frozenset[str] = frozenset()
    """The parameters that were not taken from another run, where the model starts from one."""


def set_up(prepared: Prepared, *, ranks: Ranks = ALONE) -> Setup:
    """Build the training that a configuration describes; all ranks start from the weights of the first."""
    config, task, settings = prepared.config, prepared.task, prepared.config.train
    measured = task.measured_on(prepared.valid.records or ())
    metric = settings.metric or task.own_metric(measured)
    if settings.metric is None and metric not in measured:
        raise unmeasured(task, metric, measured)
    check_metric(metric, measured)
    check_fits(config, task.codec)
    set_seed(config.seed)
    set_threads(settings.threads)
    keep_memory()
    model = task.network(config, task.codec)
    notes = fill_embeddings(model, task)
    taken = take_weights(model, task, prepared.start) if prepared.start else Taken(frozenset())
    plan: Plan | None = None
    learner: AnyLearner
    if settings.class_weights is not None:
        task.weigh(settings.class_weights, prepared.train)
    if isinstance(model, FittedModel):
        learner = build_fitted(model, prepared, ranks=ranks)
        total, per_epoch = learner.fit.total, learner.fit.every
        by_default = per_epoch
    else:
        model = model.to(choose_device(settings.device))
        ranks.broadcast_weights(model)
        freeze(model, settings.freeze)
        plan = build_plan(model, prepared.train, settings, seed=config.seed)
        per_epoch = -(-len(plan.epoch(0)) // settings.accumulate)
        total = settings.steps or (settings.epochs or 1) * per_epoch
        by_default = min(max(per_epoch, -(-total // MAX_VALIDATIONS)), MAX_UPDATES_BETWEEN_VALIDATIONS)
        learner = Learner(task, model, prepared.train, plan, config=config, total=total, new=taken.new, ranks=ranks)
    return Setup(
        device=learner.device,
        model=model,
        plan=plan,
        learner=learner,
        compilation=compile_model(model, settings.compile, device=learner.device, updates=total),
        metric=metric,
        lower_is_better=metric in task.lower_is_better,
        keep_last=too_few(prepared),
        per_epoch=per_epoch,
        total=total,
        every=settings.evaluate_every or by_default,
        notes=(*notes, *taken.notes),
        new=taken.new,
    )


def build_fitted(model: FittedModel, prepared: Prepared, *, ranks: Ranks) -> FittedLearner:
    """Build the learner of a model that fits itself, which one process does alone."""
    config, settings = prepared.config, prepared.config.train
    if ranks.size > 1:
        kind = getattr(config.model, "kind", prepared.task.name)
        what = f"is trained by one process, and there are {ranks.size}"
        raise ConfigError(what, where=f'model.kind = "{kind}"', cure="start it without torchrun")
    options = FitOptions(
        epochs=settings.epochs or 1,
        steps=settings.steps,
        rate=settings.rate,
        batch_tokens=settings.batch_tokens,
        seed=config.seed,
        threads=torch.get_num_threads(),
        label_weights=prepared.task.label_weights,
        many_labels=prepared.task.many_labels,
    )
    return FittedLearner(model.fit(prepared.train, options))


def too_few(prepared: Prepared) -> bool:
    """Return whether the part set aside for validation is too small to choose by; a file given for it never is."""
    lengths = prepared.valid.lengths
    few = len(lengths) < prepared.task.min_valid_examples and int(lengths.sum()) < FEW_TOKENS
    return prepared.config.data.files("valid") is None and few


@dataclass(frozen=True)
class TrainingJob:
    """One training: its data, its parts, its state and its folder. The first rank measures and writes for all."""

    prepared: Prepared
    setup: Setup
    state: TrainState
    saver: Saver
    files: ModelFiles
    head: Tree
    """The description of the run that its checkpoints begin with."""
    ranks: Ranks

    def measure(self) -> Evaluation:
        """Return the validation scores of the current model, and which of them are shown."""
        found = Evaluation({}, {})
        if self.ranks.first:
            with self.setup.compilation.measuring():
                decode = self.prepared.config.decode.greedy()
                found = evaluate(self.prepared.task, self.state.model, self.prepared.valid, decode=decode)
        names = {key: value for key, value in found.details.items() if key == "shown"}
        return Evaluation(*self.ranks.broadcast([found.metrics, names]))

    def save(self, weights: dict[str, Tensor]) -> None:
        """Submit a model with these weights to be saved as the model of the run; nothing may change them any more."""
        if self.ranks.first:
            self.saver.submit("model", lambda folder: save_run(folder, self.files, weights))

    def checkpoint(self) -> None:
        """Copy the state of the training and submit the copy to be written as a checkpoint."""
        self.state.learner.collect()
        if not self.ranks.first or not self.state.learner.resumable:
            return
        self.saver.wait("checkpoint")  # before there is a second copy in memory
        # A run that started from another is resumed without it, so its checkpoints have the tokenizers.
        files = self.files.tokenizers if self.prepared.start else {}
        snapshot = self.state.snapshot(self.head | {"journal": journal_size(self.saver.original)}, files)

        def write(folder: Path) -> None:
            with suppress(FileNotFoundError):  # nothing was recorded yet
                sync(folder / JOURNAL)  # the checkpoint counts its bytes, so they must survive a crash
            Checkpoints(folder).save(snapshot.step, snapshot.write)

        self.saver.submit("checkpoint", write)

    def restore(self, checkpoint: Path) -> None:
        """Restore the training from a checkpoint, and the saved model too: a later one may have been written."""
        self.state.read(checkpoint)
        if self.state.best.weights:
            self.save(self.state.best.weights)


def describe_search(prepared: Prepared) -> Iterator[str]:
    """Yield a note where validations and the report at the end use different searches."""
    beam = prepared.config.decode.beam
    if prepared.task.measures_answers and beam > 1:
        yield f"validations search greedily, the report at the end with decode.beam = {beam}"


def unmeasured(task: Task, metric: str, measured: Iterable[str]) -> ConfigError:
    """The error for a class of a task whose own metric is not among those that it measures."""
    named, where = ", ".join(measured), f'{type(task).__name__}.metric = "{metric}"'
    return ConfigError(f"is none of the metrics that the task measures: {named}", where=where, cure="name one of them")


def pick_score(job: TrainingJob, metrics: dict[str, float]) -> float:
    """Return the score that chooses the model; raise where the task has not measured it."""
    name = job.setup.metric
    if name not in metrics and job.prepared.config.train.metric is None:
        raise unmeasured(job.prepared.task, name, metrics)
    if name not in metrics:
        raise ConfigError("is not measured here", where=f'train.metric = "{name}"', cure=did_you_mean(name, metrics))
    return metrics[name]
