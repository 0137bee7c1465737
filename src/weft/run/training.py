"""Training from prepared data to a run folder, as a stream of events."""

from __future__ import annotations

import math
import signal
from collections.abc import Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from weft.disk import sync
from weft.errors import ConfigError, Fault, did_you_mean
from weft.evaluate import Evaluation, calibrate, evaluate
from weft.metrics import shown
from weft.run.checkpoint import Checkpoints
from weft.run.claiming import JOURNAL
from weft.run.manifest import MANIFEST
from weft.run.preparation import Prepared
from weft.run.report import count_parameters, describe, score, versions
from weft.run.resuming import Resumed, about, check_total, journal_size
from weft.run.save import PlainFiles, save_report, save_run
from weft.run.saver import Saver
from weft.run.setup import set_up
from weft.run.standing import Standing
from weft.tasks import Tree
from weft.training import (
    Average,
    Best,
    Ended,
    Event,
    Interrupt,
    Measuring,
    Saving,
    Started,
    Validated,
)
from weft.training.best import copy_weights
from weft.training.compilation import Compilation
from weft.training.ranks import ALONE, Ranks

AGREE = 20
"""Updates after which several processes ask the first whether a signal has come; asking makes a GPU wait."""

UNWRITABLE = "the folder of the run cannot be written"


@dataclass(frozen=True)
class Job:
    """One training: its data, its folder, how far it has come, and what it is to do."""

    prepared: Prepared
    saver: Saver
    files: PlainFiles
    standing: Standing
    compilation: Compilation
    metric: str
    total: int
    every: int
    about: Tree
    """What its checkpoints say of the run they belong to."""
    ranks: Ranks
    """The processes that do it together; the first measures and writes."""

    def measure(self) -> Evaluation:
        """The validation scores of the model as it is, and which of them are shown."""
        found = Evaluation({}, {})
        if self.ranks.first:
            with self.compilation.measuring():
                decode = self.prepared.config.decode.greedy()
                found = evaluate(self.prepared.task, self.standing.model, self.prepared.valid, decode=decode)
        names = {key: value for key, value in found.details.items() if key == "shown"}
        return Evaluation(*self.ranks.hear([found.metrics, names]))

    def save(self, weights: dict[str, Tensor]) -> None:
        """A model with these weights, which nothing changes any more, becomes the run's, soon."""
        if self.ranks.first:
            self.saver.hand_over("model", lambda folder: save_run(folder, self.files, weights))

    def checkpoint(self) -> None:
        """All that the rest of the training depends on is copied, and soon on the disk."""
        self.standing.learning.collect()
        if not self.ranks.first:
            return
        self.saver.wait("checkpoint")  # before there is a second copy in memory
        snapshot = self.standing.snapshot(self.about | {"journal": journal_size(self.saver.given)})

        def write(folder: Path) -> None:
            with suppress(FileNotFoundError):  # nothing was recorded yet
                sync(folder / JOURNAL)  # what the checkpoint counts must outlive a crash
            Checkpoints(folder).save(snapshot.step, snapshot.write)

        self.saver.hand_over("checkpoint", write)


def train_events(
    prepared: Prepared, saver: Saver, resumed: Resumed | None = None, *, ranks: Ranks = ALONE
) -> Iterator[Event]:
    """Train, keep the best model so far in the saver's folder, score it at the end. Yields all that happens.

    What the saver is told of, such as a journal that cannot be written, ends the training with a checkpoint.
    """
    resumed = resumed or Resumed()
    config, settings = prepared.config, prepared.config.train
    setup = set_up(prepared, ranks=ranks)
    model, learning, total = setup.model, setup.learning, setup.total
    notes = (*prepared.notes, *describe_search(prepared), *resumed.notes, *check_total(total, resumed))
    best = Best(lower_is_better=setup.lower_is_better, patience=settings.patience, last=setup.last)
    job = Job(
        prepared=prepared,
        saver=saver,
        files=PlainFiles(config, prepared.task.codec, model),
        standing=Standing(model, learning, best, Average(settings.average)),
        compilation=setup.compilation,
        metric=setup.metric,
        total=total,
        every=setup.every,
        about=about(prepared, total=total),
        ranks=ranks,
    )
    if setup.last:
        notes = (*notes, f"keeps the last model: {len(prepared.valid)} validation examples are too few to choose by")
    if resumed.checkpoint:
        go_back(job, resumed.checkpoint)
        notes = (*notes, f"goes on after update {learning.number:,}")
    if not ranks.first:  # no two drop the same values
        torch.manual_seed((config.seed + 1_000_003 * ranks.rank + learning.number) % 2**64)
    yield Started(
        task=prepared.task.name,
        examples=len(prepared.train),
        valid=len(prepared.valid),
        parameters=count_parameters(model),
        steps=total,
        steps_per_epoch=setup.per_epoch,
        device=describe(setup.device),
        notes=(*notes, *setup.compilation.notes),
        done=learning.number,
        metric=setup.metric,
    )
    with Interrupt() as interrupt:
        reason = yield from learn(job, interrupt)
        finished = not interrupt.signal
        if finished:
            yield from finish(job, reason)
        elif not best.weights:  # nothing was validated yet, and what was learned should be of use
            yield from validate(job)
        saver.settle()
    yield Ended(learning.number, reason, interrupt.signal, finished)


def describe_search(prepared: Prepared) -> Iterator[str]:
    """A note where the scores of validations and of the report come from different searches."""
    beam = prepared.config.decode.beam
    if prepared.task.measures_answers and beam > 1:
        yield f"validations search greedily, the report at the end with decode.beam = {beam}"


def learn(job: Job, interrupt: Interrupt) -> Generator[Event, None, str]:
    """Update the model until there is a reason to stop, which is given back; a checkpoint is then on disk."""
    standing, learning = job.standing, job.standing.learning
    every = job.prepared.config.train.checkpoint_every or job.every
    reason = over(job, interrupt)
    if reason:  # the checkpoint that training goes on from was its last
        return reason
    for step in learning.steps():
        standing.tokens += step.tokens
        yield step
        if step.number % job.every == 0 or step.number == job.total:
            yield from validate(job)
        reason = over(job, interrupt)
        if reason or step.number % every == 0:
            yield Saving(step.number)
            job.checkpoint()
        if reason:
            break
    if reason == UNWRITABLE:
        job.saver.settle()
    return reason


def over(job: Job, interrupt: Interrupt) -> str:
    """Why no further update is to be made; empty while there is no reason."""
    best, number = job.standing.best, job.standing.learning.number
    done = best.stale or number >= job.total
    if done or job.ranks.size == 1 or number % AGREE == 0:  # all stop after the same update
        interrupt.signal, failed = job.ranks.hear([interrupt.signal, job.saver.failed])
        if failed:  # with a last checkpoint, which may find room or go elsewhere
            return UNWRITABLE
        if interrupt.signal:
            return f"stopped by {signal.Signals(interrupt.signal).name}"
    if best.stale:
        what = job.metric if job.metric == "loss" else f"{job.metric} and no lower loss"
        return f"no better {what} for {best.patience} validations"
    return "all updates done" if done else ""


def validate(job: Job) -> Iterator[Event]:
    """Score the model, and keep it if it is the best so far."""
    standing, number = job.standing, job.standing.learning.number
    yield Measuring("validating")
    scores, details = job.measure()
    if not math.isfinite(scores.get("loss", 0.0)):
        cure = f"lower train.rate, now {job.prepared.config.train.rate:g}, or set train.clip"
        raise Fault(f"the validation loss is {scores['loss']:g} after update {number:,}", cure=cure)
    best = standing.best
    better = best.offer(pick(scores, job.metric), number, standing.model, loss=scores.get("loss", math.nan))
    standing.learning.observe(progress=best.since == 0)
    standing.average.take(number, standing.model)
    if better:
        job.save(best.weights)
    yield Validated(number, scores, better, tuple(shown(scores, details, job.metric)))


def finish(job: Job, reason: str) -> Iterator[Event]:
    """Choose between the best model and the mean of the last ones, score what is chosen, write the report."""
    standing, prepared = job.standing, job.prepared
    best, model = standing.best, standing.model
    seconds = standing.seconds
    chosen: dict[str, object] = {"weights": "best"}
    yield Measuring("measuring the best model")
    if len(standing.average.kept) > 1:
        model.load_state_dict(standing.average.mean())
        scores, _ = job.measure()
        value = pick(scores, job.metric)
        chosen["average"] = {"steps": standing.average.steps, job.metric: value}
        if best.improves(value, loss=scores.get("loss", math.nan)):
            chosen["weights"] = "average"
    if chosen["weights"] == "best":
        best.restore(model)
    else:
        job.save(copy_weights(model))
    if not job.ranks.first:
        return
    with job.compilation.measuring():
        if calibration := calibrate(prepared.task, model, prepared.valid):
            job.save(copy_weights(model))
        report = score(prepared, model, calibration)
    facts = {
        "parameters": count_parameters(model),
        "seconds": round(seconds, 1),
        "tokens_per_second": round(standing.tokens / max(seconds, 1e-9)),
        "steps": standing.learning.number,
        "best_step": best.step,
        **chosen,
        "ended": reason,
        "seed": prepared.config.seed,
        "versions": versions(),
    }
    job.saver.settle()

    def conclude(folder: Path) -> None:
        if not (folder / MANIFEST).exists():  # a new one, because the run's own has just gone
            save_run(folder, job.files, copy_weights(model))
        Checkpoints(folder).keep(1)
        save_report(folder, prepared.config, report | facts)

    job.saver.hand_over("report", conclude)
    job.saver.settle()


def go_back(job: Job, checkpoint: Path) -> None:
    """Everything as it was at the checkpoint, the model files in the folder too: later ones may have been written."""
    standing = job.standing
    standing.read(checkpoint)
    if standing.best.weights:
        job.save(standing.best.weights)


def pick(metrics: dict[str, float], name: str) -> float:
    if name not in metrics:
        raise ConfigError("is not measured here", where=f'train.metric = "{name}"', cure=did_you_mean(name, metrics))
    return metrics[name]
