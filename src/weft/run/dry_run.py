"""`weft train --dry-run`: build everything, make a few updates, write nothing, and estimate time and memory.

The first update has the largest batch, so a lack of memory shows in seconds and not after hours.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import nn

from weft.errors import Fault, counted
from weft.evaluate import evaluate, samples
from weft.run.folder.lock import one_training
from weft.run.job import AnyLearner, set_up
from weft.run.learner import Learner, Plan, StreamPosition
from weft.run.prepare import Prepared
from weft.run.report import count_parameters, describe_device
from weft.training import Streams, choose_device
from weft.training.compilation import Compilation
from weft.training.device import synchronize

WARMUP_UPDATES, TIMED_UPDATES = 2, 8
"""Updates after the largest one: first some that are not timed, then some that are."""

MAX_SECONDS = 20.0
"""Time after which no further update is made, as long as one was timed."""


class LargestBatch(NamedTuple):
    """The largest batch of an epoch: its number, its rows, and the tokens of the longest of them."""

    place: int
    rows: int
    longest: int

    def __str__(self) -> str:
        return f"largest batch: {counted(self.rows, 'example')}, the longest of {counted(self.longest, 'token')}"


@dataclass(frozen=True)
class DryRun:
    """The time and memory that a training needs. Times are estimated from a few updates."""

    parameters: int | None
    """None where the updates that were not made decide how many there are."""
    device: str
    updates: int
    largest: LargestBatch | None
    """None for a model that fits itself."""
    memory: int
    """Bytes at the peak: of the process, or of the GPU."""
    update_seconds: float
    validations: int
    validation_seconds: float
    notes: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """Time of all updates and validations, if nothing stops the training early."""
        return self.updates * self.update_seconds + self.validations * self.validation_seconds

    def lines(self) -> list[str]:
        """Return the lines that the command prints."""
        return [
            *(f"note {note}" for note in self.notes),
            f"{'' if self.parameters is None else counted(self.parameters, 'parameter') + ' '}on {self.device}",
            *([str(self.largest)] if self.largest else []),
            f"memory at the peak: {self.memory / 2**30:.2f} GiB",
            f"an update: {show_seconds(self.update_seconds)}; a validation: {show_seconds(self.validation_seconds)}",
            f"in all: {counted(self.updates, 'update')} and {counted(self.validations, 'validation')}, about "
            f"{show_seconds(self.seconds)} unless it stops early",
        ]


@one_training()
def dry_run(prepared: Prepared) -> DryRun:
    """Build model and optimizer, make the largest update and some typical ones, score a batch of validation data."""
    if (device := choose_device(prepared.config.train.device)).type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    setup = set_up(prepared)
    device = setup.device
    model, learner, compilation = setup.model, setup.learner, setup.compilation
    largest = None
    if isinstance(learner, Learner) and setup.plan is not None:
        largest = find_largest(setup.plan)
        learner.stream.start = StreamPosition(0, largest.place)
    try:
        updates = time_updates(learner, device)
        validation_seconds = time_validation(prepared, model, compilation, device)
    except torch.OutOfMemoryError:
        assert largest is not None  # only a GPU raises it
        size = f"{counted(largest.rows, 'example')} of up to {counted(largest.longest, 'token')}"
        raise Fault(
            f"{size} do not fit into the memory of {describe_device(device)}",
            where=f"train.batch_tokens = {prepared.config.train.batch_tokens}",
            cure="lower it, and raise train.accumulate by the same factor",
        ) from None
    return DryRun(
        parameters=None if learner.grows and learner.number < setup.total else count_parameters(model),
        device=describe_device(device),
        updates=setup.total,
        largest=largest,
        memory=peak_memory(device),
        update_seconds=updates.seconds,
        validations=-(-setup.total // setup.every),
        validation_seconds=validation_seconds,
        notes=(*prepared.notes, *compilation.notes, *updates.notes),
    )


def find_largest(plan: Plan) -> LargestBatch:
    """Return the batch of the first epoch that has the most positions."""
    if isinstance(plan, Streams):
        return LargestBatch(0, plan.count, min(plan.truncate, plan.length))
    place = plan.largest(0)
    rows = plan.epoch(0)[place]
    return LargestBatch(place, len(rows), int(plan.sides[rows].max()))


class UpdateTime(NamedTuple):
    """Seconds of a typical update, its batch included, and the notes of the updates."""

    seconds: float
    notes: tuple[str, ...]


def time_updates(learner: AnyLearner, device: torch.device) -> UpdateTime:
    """Make the largest update and some typical ones, and time these."""
    began = start = time.perf_counter()
    made = timed = 0
    notes = list[str]()
    for made, update in enumerate(learner.steps(), 1):
        notes += update.notes
        if made == 1 + WARMUP_UPDATES:
            synchronize(device)
            start = time.perf_counter()
        timed = made - 1 - WARMUP_UPDATES
        if timed == TIMED_UPDATES or (timed > 0 and time.perf_counter() - began > MAX_SECONDS):
            break
    synchronize(device)
    if timed < 1:  # a model that fits itself may be complete after one update
        start, timed = began, made
    return UpdateTime((time.perf_counter() - start) / timed, tuple(notes))


def time_validation(prepared: Prepared, model: nn.Module, compilation: Compilation, device: torch.device) -> float:
    """Estimate the seconds of a validation from a typical part of the data, after one with the longest rows."""
    *parts, times = samples(prepared.valid)
    decode, seconds = prepared.config.decode.greedy(), 0.0
    with compilation.measuring():
        for part in parts:
            synchronize(device)
            began = time.perf_counter()
            evaluate(prepared.task, model, part, decode=decode)
            synchronize(device)
            seconds = time.perf_counter() - began
    return seconds * times


def peak_memory(device: torch.device) -> int:
    """Return the most bytes that the GPU's allocator took, or elsewhere the process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_reserved(device)
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def show_seconds(seconds: float) -> str:
    """Show a time in the unit that leaves a number of two or three digits."""
    for unit, size in (("days", 86_400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{1000 * seconds:.0f} ms"
