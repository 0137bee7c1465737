"""`weft train`, from the configuration to the run folder.

train, train_run   check the settings, lock the process
_lead              lock the folder, read the data, find the checkpoint to resume from, record events, draw curves
train_events       build model and learner, restore the checkpoint, run the loop, report: yields events
update_until_done  the loop (training/loop.py, which the learner calls): update, validate, save checkpoints, until there
                   is a reason to stop
validate           score the model, save it if it is the best
finish             choose the final weights, calibrate, score, write the report
"""

from __future__ import annotations

import math
import signal
from collections.abc import Generator, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch

from weft.config import merge, read_config
from weft.data.sources import has_surrogate
from weft.errors import Fault, RunError
from weft.evaluate import calibrate
from weft.metrics import shown
from weft.models import FittedModel
from weft.nn import CellClass
from weft.run.curves import draw_curves
from weft.run.folder.checkpoint import Checkpoints
from weft.run.folder.files import JOURNAL, MANIFEST, check_path
from weft.run.folder.lock import claim_folder, one_training
from weft.run.folder.save import ModelFiles, Saver, save_run
from weft.run.inputs import NO_PYTHON_DATA, PythonData, take_python_data
from weft.run.job import TrainingJob, describe_search, pick_score, set_up
from weft.run.load import load
from weft.run.prepare import Prepared, ReadData, prepare
from weft.run.report import count_parameters, describe_device, read_report, save_report, score, versions
from weft.run.resume import ResumePoint, check_total, checkpoint_head, keep_defaults, read_resumed_start, resume_run
from weft.run.run import Run
from weft.run.start import start_settings
from weft.run.train_state import TrainState
from weft.settings import show
from weft.tasks import Tree
from weft.training import (
    Average,
    Best,
    Ended,
    Event,
    Interrupt,
    Journal,
    Measuring,
    Saving,
    Started,
    Validated,
    choose_device,
)
from weft.training.best import copy_weights
from weft.training.events import TIME_IS_OVER
from weft.training.progress import Watch
from weft.training.ranks import ALONE, Ranks, join_ranks
from weft.training.tensorboard import TensorBoard

UPDATES_BETWEEN_SIGNAL_CHECKS = 20
"""Updates after which several ranks exchange whether a signal has come; the exchange blocks a GPU."""

UNWRITABLE = "the folder of the run cannot be written"


def train(
    config: str | Path | Mapping[str, Any],
    overrides: Mapping[str, Any] | None = None,
    *,
    out: str | Path | None = None,
    quiet: bool = False,
    skip_bad_lines: bool = False,
    cells: Mapping[str, CellClass] | None = None,
    resume: bool = False,
    start: str | Path | Run | Mapping[str, Any] | None = None,
) -> Run:
    """Train from a config file or table, with overrides such as {"train.rate": 3e-4}; the run folder is `out`.

    In Python data.train, data.valid and data.test may also be the examples themselves: a list of tuples or dicts, a
    pandas or polars frame, a Hugging Face data set.

    `resume` continues the run in that folder from its last checkpoint, as if it had never been interrupted; in a
    folder that is empty or missing it begins one. `cells` are classes of your own by the names that the config uses:
    cells={"mine": MyCell} for cell = "mine". `start` is a run, or its folder, whose weights the model starts from; for
    a translator also a table: {"encoder": RUN, "decoder": RUN}.
    """
    tree, python_data = take_python_data(config, overrides or {})
    run, _ = train_run(
        read_config(merge(tree, start_settings(start)), cells=cells),
        out=out,
        watch=Watch(quiet=quiet),
        skip_bad_lines=skip_bad_lines,
        cells=cells,
        resume=resume,
        python_data=python_data,
    )
    return run


def train_run(
    tree: Tree,
    *,
    out: str | Path | None,
    watch: Watch,
    skip_bad_lines: bool = False,
    cells: Mapping[str, CellClass] | None = None,
    resume: bool = False,
    fresh: bool = False,
    python_data: PythonData = NO_PYTHON_DATA,
) -> tuple[Run, Ended]:
    """Train, write the journal and show events with `watch`; return the run, and how training ended.

    `fresh` reads and tokenises large files anew instead of using the cache of earlier runs. `python_data` is data given
    in Python, by the name that stands for it in the tree.

    Started by torchrun, several processes train together: the first writes and shows, the others follow.
    """
    if out is not None:
        check_path(out, "out")
        if has_surrogate(str(out)):
            raise RunError("is not UTF-8", where=show(str(out)), cure="choose another --out")
    read = partial(prepare, skip_bad_lines=skip_bad_lines, cells=cells, python_data=python_data)
    with one_training(), join_ranks(choose_device(tree.get("train", {}).get("device", "auto"))) as ranks:
        if ranks.first:
            return _lead(tree, ranks, partial(read, fresh=fresh), out=out, watch=watch, cells=cells, resume=resume)
        return _follow(tree, ranks, read, cells=cells)


def _lead(
    tree: Tree,
    ranks: Ranks,
    read: ReadData,
    *,
    out: str | Path | None,
    watch: Watch,
    cells: Mapping[str, CellClass] | None,
    resume: bool,
) -> tuple[Run, Ended]:
    """Train as the first rank, or the only one."""
    with claim_folder(out, tree["task"], resume=resume) as folder:
        tree = keep_defaults(tree, folder)
        with watch.waiting("reading the data") as progress:
            prepared = read(tree, progress=progress, resumed=read_resumed_start(folder, tree) if resume else None)
        point = resume_run(folder, prepared, cells=cells) if resume else ResumePoint()
        ranks.broadcast([str(folder), str(point.checkpoint or ""), point.total, point.finished])
        if point.finished:
            report = read_report(folder, whole=True)
            ended = Ended(report["steps"], f"was finished before ({report['ended']})", finished=True)
            return load(folder, cells=cells), ended
        journal = Journal(folder / JOURNAL, length=point.journal, seconds=point.seconds)
        # However training ends, all that was submitted to the saver is on the disk when the block is left.
        with journal, TensorBoard(folder) as board, watch, Saver(folder) as saver:
            for event in train_events(prepared, saver, point, ranks=ranks):
                for listener in (journal.write, board.write, watch.show):
                    with saver.noting_faults():
                        listener(event)
        assert isinstance(event, Ended)
        if not event.interrupted:
            draw_curves(folder, watch.note)
        ranks.broadcast("the folder is complete")
    return load(folder, cells=cells), event


def _follow(tree: Tree, ranks: Ranks, read: ReadData, *, cells: Mapping[str, CellClass] | None) -> tuple[Run, Ended]:
    """Train as any other rank, which writes and shows nothing."""
    place, checkpoint, total, finished = ranks.broadcast()
    folder = Path(place)
    if finished:
        run = load(folder, cells=cells)
        return run, Ended(run.report["steps"], "was finished before", finished=True)
    tree = keep_defaults(tree, folder)
    prepared = read(tree, resumed=read_resumed_start(folder, tree) if checkpoint else None)
    point = ResumePoint(Path(checkpoint), total) if checkpoint else ResumePoint()
    for event in train_events(prepared, Saver(folder), point, ranks=ranks):
        ended = event
    assert isinstance(ended, Ended)
    ranks.broadcast()
    return load(folder, cells=cells), ended


def train_events(
    prepared: Prepared, saver: Saver, point: ResumePoint | None = None, *, ranks: Ranks = ALONE
) -> Iterator[Event]:
    """Train, keep the best model so far in the saver's folder, score it at the end. Yields an event for each update.

    `set_up` builds the model and the learner, which has batches, optimizer and schedule and calls `training/loop.py`.
    A fault that the saver has noted, such as a journal that cannot be written, ends training with a checkpoint.
    """
    point = point or ResumePoint()
    config, settings = prepared.config, prepared.config.train
    setup = set_up(prepared, ranks=ranks)
    model, learner, total = setup.model, setup.learner, setup.total
    notes = (*prepared.notes, *setup.notes, *describe_search(prepared), *point.notes, *check_total(total, point))
    best = Best(lower_is_better=setup.lower_is_better, patience=settings.patience, last=setup.keep_last)
    job = TrainingJob(
        prepared=prepared,
        setup=setup,
        state=TrainState(model, learner, best, Average(settings.average)),
        saver=saver,
        files=ModelFiles(config, prepared.task.codec, model),
        head=checkpoint_head(prepared, total=total, new=setup.new),
        ranks=ranks,
    )
    if setup.keep_last:
        notes = (*notes, f"keeps the last model: validation examples to choose by are too few ({len(prepared.valid)})")
    if point.checkpoint:
        job.restore(point.checkpoint)
        notes = (*notes, f"goes on after update {learner.number:,}")
    if not ranks.first:  # each rank has dropout of its own
        torch.manual_seed((config.seed + 1_000_003 * ranks.rank + learner.number) % 2**64)
    yield Started(
        task=prepared.task.name,
        examples=len(prepared.train),
        valid=len(prepared.valid),
        parameters=None if learner.grows else count_parameters(model),
        steps=total,
        steps_per_epoch=setup.per_epoch,
        device=describe_device(setup.device),
        notes=(*notes, *setup.compilation.notes),
        done=learner.number,
        metric=setup.metric,
    )
    with Interrupt() as interrupt:
        reason = yield from update_until_done(job, interrupt)
        finished = not interrupt.signal
        if not best.weights:  # nothing was validated yet, so no model has been saved
            yield from validate(job)
        if finished:
            yield from finish(job, reason)
        saver.flush()
    yield Ended(learner.number, reason, interrupt.signal, finished)


def update_until_done(job: TrainingJob, interrupt: Interrupt) -> Generator[Event, None, str]:
    """Update the model until there is a reason to stop, and return it; a checkpoint is then written.

    A checkpoint holds all that resuming needs: weights, optimizer, place in the data, random states.
    """
    setup, state = job.setup, job.state
    every = job.prepared.config.train.checkpoint_every or setup.every
    reason = reason_to_stop(job, interrupt)
    if reason:  # the checkpoint that was resumed from was the last one
        return reason
    for update in state.learner.steps():
        state.tokens += update.tokens
        yield update
        validated = update.number % setup.every == 0 or update.number == setup.total
        if validated:
            yield from validate(job)
        reason = reason_to_stop(job, interrupt)
        if reason == TIME_IS_OVER and not validated:
            yield from validate(job)
        if state.learner.resumable and (reason or update.number % every == 0):
            yield Saving(update.number)
            job.checkpoint()
        if reason:
            break
    if reason == UNWRITABLE:
        job.saver.flush()
    return reason


def reason_to_stop(job: TrainingJob, interrupt: Interrupt) -> str:
    """Return why no further update is to be made; empty while there is no reason."""
    best, number, metric = job.state.best, job.state.learner.number, job.setup.metric
    done = best.stale or number >= job.setup.total
    limit = job.prepared.config.train.seconds
    over = limit is not None and number > 0 and job.state.seconds >= limit
    if done or job.ranks.size == 1 or number % UPDATES_BETWEEN_SIGNAL_CHECKS == 0:  # all ranks stop after the same one
        interrupt.signal, failed, over = job.ranks.broadcast([interrupt.signal, job.saver.failed, over])
        if failed:  # the last checkpoint may fit on the disk, or be written to another folder
            return UNWRITABLE
        if interrupt.signal:
            return f"stopped by {signal.Signals(interrupt.signal).name}"
    else:
        over = False  # the others may not have reached it yet
    if best.stale:
        what = metric if metric == "loss" else f"{metric} and no lower loss"
        return f"no better {what} for {best.patience} validations"
    return "all updates done" if done else TIME_IS_OVER if over else ""


def validate(job: TrainingJob) -> Iterator[Event]:
    """Score the model on all validation batches (`Task.measure`), and save it if it is the best so far."""
    state, number = job.state, job.state.learner.number
    yield Measuring("validating")
    scores, details = job.measure()
    allowed = isinstance(state.model, FittedModel) and state.model.can_be_infinite
    if math.isnan(loss := scores.get("loss", 0.0)) or (math.isinf(loss) and not allowed):
        cure = f"lower train.rate, now {job.prepared.config.train.rate:g}, or set train.clip"
        raise Fault(f"the validation loss is {loss:g} after update {number:,}", cure=cure)
    best, metric = state.best, job.setup.metric
    better = best.offer(pick_score(job, scores), number, state.model, loss=scores.get("loss", math.nan))
    state.learner.observe(progress=best.since == 0)
    state.average.take(number, state.model)
    if better:
        job.save(best.weights)
    yield Validated(number, scores, better, tuple(shown(scores, details, metric)))


def finish(job: TrainingJob, reason: str) -> Iterator[Event]:
    """Choose the best model or the mean of the last ones, calibrate it, score it on validation and test data."""
    state, prepared, metric = job.state, job.prepared, job.setup.metric
    best, model = state.best, state.model
    seconds = state.seconds
    chosen: dict[str, object] = {"weights": "best"}
    yield Measuring("measuring the best model")
    if len(state.average.kept) > 1:
        model.load_state_dict(state.average.mean())
        scores, _ = job.measure()
        value = pick_score(job, scores)
        chosen["average"] = {"steps": state.average.steps, metric: value}
        if best.improves(value, loss=scores.get("loss", math.nan)):
            chosen["weights"] = "average"
    if chosen["weights"] == "best":
        best.restore(model)
    else:
        job.save(copy_weights(model))
    if not job.ranks.first:
        return
    with job.setup.compilation.measuring():
        if calibration := calibrate(prepared.task, model, prepared.valid):
            job.save(copy_weights(model))
        report = score(prepared, model, calibration)
    facts = {
        "parameters": count_parameters(model),
        "seconds": round(seconds, 1),
        "tokens_per_second": round(state.tokens / max(seconds, 1e-9)),
        "steps": state.learner.number,
        "best_step": best.step,
        **chosen,
        "ended": reason,
        "seed": prepared.config.seed,
        "versions": versions(),
    }
    job.saver.flush()

    def write(folder: Path) -> None:
        if not (folder / MANIFEST).exists():  # a new folder, because that of the run has just gone
            save_run(folder, job.files, copy_weights(model))
        Checkpoints(folder).keep(1)
        save_report(folder, prepared.config, report | facts)

    job.saver.submit("report", write)
    job.saver.flush()
