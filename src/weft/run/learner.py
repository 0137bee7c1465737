"""The learner of a model: optimizer, schedule and batches as a configuration describes them, and their state."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any, NamedTuple, TypeAlias

from torch import nn

from weft.config import Config
from weft.data import Batches, Capacity, Examples, PackedBatches
from weft.data.batches import Rows
from weft.run.train_state import OptimizerState, RandomState, Stateful
from weft.tasks import Batch, Task, Tree
from weft.tasks.task import Origin
from weft.training import (
    SCHEDULES,
    Carry,
    LayerRates,
    LoopOptions,
    Plateau,
    Scaling,
    Schedule,
    Streams,
    TrainConfig,
    Update,
    ahead,
    build_objective,
    build_optimizer,
    steps,
)
from weft.training.ranks import ALONE, Ranks

WARMUP_UPDATES = 100
"""Updates over which the rate rises where no setting says so, in a run that is long enough."""

Plan: TypeAlias = Batches | PackedBatches | Streams
"""The examples of each batch, and the order of the batches, in every epoch."""


class Learner:
    """Makes the updates of one model; `number` of them are made.

    `state` returns all that the next updates depend on except the weights. `new` names the parameters that were not
    taken from another run, where the model starts from one.
    """

    grows = False
    """Whether updates decide the size of the model."""

    def __init__(
        self,
        task: Task,
        model: nn.Module,
        examples: Examples,
        plan: Plan,
        *,
        config: Config,
        total: int,
        new: Collection[str] = (),
        ranks: Ranks = ALONE,
    ) -> None:
        settings = config.train
        self.layers = LayerRates.of(model, settings, new)
        self.model, self.settings, self.ranks = model, settings, ranks
        self.objective = build_objective(task, model, settings)
        self.device = next(model.parameters()).device
        self.optimizer = build_optimizer(
            model,
            kind=settings.optimizer,
            rate=settings.rate,
            weight_decay=settings.weight_decay,
            beta2=settings.beta2,
            momentum=settings.momentum,
            rates=self.layers.rates,
        )
        self.schedule = build_schedule(settings, total)
        self.scaling = Scaling(self.device) if settings.precision == "fp16" else None
        self.stream = BatchStream(task, examples, plan)
        self.number = self.taken = 0
        parts: dict[str, Any] = {
            "chance": RandomState(),
            "objective": self.objective,
            "optimizer": OptimizerState(model, self.optimizer),
            "schedule": self.schedule,
            "scaling": self.scaling,
        }
        self.parts: dict[str, Stateful] = {name: part for name, part in parts.items() if hasattr(part, "restore")}

    def steps(self) -> Iterator[Update]:
        """Yield updates without end, after those that were made before."""
        settings = self.settings
        options = LoopOptions(
            accumulate=settings.accumulate,
            clip=settings.clip,
            clip_value=settings.clip_value,
            label_smoothing=settings.label_smoothing,
            precision=settings.precision,
            scaling=self.scaling,
            captured=self.captured,
            skip_bad=settings.skip_bad,
            frozen=self.layers.frozen(self.model),
            ranks=self.ranks,
        )
        # A GPU that lacks memory should fail now; a CPU only becomes slow, and --dry-run shows its memory.
        largest = self.stream.largest() if self.device.type == "cuda" else None
        # A CPU that computes has no core to spare for a thread that makes batches.
        made = ahead(self.stream, self.device) if self.device.type == "cuda" else iter(self.stream)
        with closing(made) as ready:
            for update in steps(
                self.model,
                self.objective,
                self._count(ready),
                optimizer=self.optimizer,
                schedule=self.schedule,
                options=options,
                start=self.number,
                largest=largest,
            ):
                self.number = update.number
                yield update

    @property
    def captured(self) -> bool:
        """Whether updates run from CUDA graphs: batches of a few shapes do, where the settings allow it."""
        return isinstance(self.stream.batches, PackedBatches) and self.settings.compile is not False

    @property
    def resumable(self) -> bool:
        """Whether a checkpoint of the current state would be of use: always."""
        return True

    def observe(self, *, progress: bool) -> None:
        """Pass on whether a validation was better than those before, for a schedule that depends on it."""
        if isinstance(self.schedule, Plateau):
            self.schedule.observe(progress=progress)

    def collect(self) -> None:
        """Send to every rank the states that the others carry between updates, before a checkpoint is written."""
        if isinstance(self.objective, Carry):
            self.objective.collect(self.ranks, parts=self.settings.accumulate)

    def state(self) -> Tree:
        """Return the number of updates, the next batch, and the states of all parts."""
        position = self.stream.after(self.taken)
        return {
            "number": self.number,
            "plan": type(self.stream.batches).__name__,
            "epoch": position.epoch,
            "batch": position.batch,
            "parts": {name: part.state() for name, part in self.parts.items()},
        }

    def restore(self, state: Tree) -> None:
        """Continue from that state. Call it last: nothing but `steps` may draw random numbers afterwards."""
        self.number, self.taken = state["number"], 0
        # Another device may need other batches; the epoch then begins again.
        same = state["plan"] == type(self.stream.batches).__name__
        self.stream.start = StreamPosition(state["epoch"], state["batch"] if same else 0)
        for name, part in self.parts.items():
            part.restore(state["parts"][name])

    def _count(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        for batch in batches:
            self.taken += 1
            yield batch


def build_schedule(settings: TrainConfig, total: int) -> Schedule:
    """Build the schedule of the rate for a training of `total` updates."""
    warmup = min(WARMUP_UPDATES, total // 4) if settings.warmup is None else settings.warmup
    if settings.schedule == "plateau":
        return Plateau(warmup, total, factor=settings.plateau_factor, patience=settings.plateau_patience)
    return SCHEDULES[settings.schedule](warmup, total)


class StreamPosition(NamedTuple):
    """The next batch of a stream: its epoch, and its number in that epoch, both counted from 0."""

    epoch: int = 0
    batch: int = 0


class BatchStream:
    """Batches without end, each epoch in its own order. Batches before `start` are skipped and not made."""

    def __init__(self, task: Task, examples: Examples, batches: Plan, *, start: StreamPosition | None = None) -> None:
        self.task, self.examples, self.batches = task, examples, batches
        self.start = start or StreamPosition()
        self._sizes: list[int] = []

    def __iter__(self) -> Generator[Batch, None, None]:
        self._sizes.clear()
        for epoch in count(self.start.epoch):
            chosen, examples = self.batches.epoch(epoch), self._examples(epoch)
            self._sizes.append(len(chosen))
            for number in range(self.start.batch if epoch == self.start.epoch else 0, len(chosen)):
                yield self._make(chosen[number], examples)

    def largest(self) -> Batch | None:
        """Return the largest batch of the first epoch; None where all are of one size."""
        if isinstance(self.batches, Streams):
            return None
        epoch = self.start.epoch
        return self._make(self.batches.epoch(epoch)[self.batches.largest(epoch)], self._examples(epoch))

    def _examples(self, epoch: int) -> Examples:
        """Return the examples of an epoch; streams read the text itself."""
        if isinstance(self.batches, Streams):
            return self.examples
        return self.examples.epoch(epoch, seed=self.batches.seed)

    def _make(self, rows: Any, examples: Examples) -> Batch:
        if isinstance(self.batches, Streams):
            return self.batches.collate(rows)
        return self._collate(
            examples, rows, self.batches.capacity(rows) if isinstance(self.batches, PackedBatches) else None
        )

    def _collate(self, examples: Examples, rows: Rows, capacity: Capacity | None = None) -> Batch:
        """Make a batch. It can be made again in parts, which have shapes of their own and are not filled up."""
        packed = isinstance(self.batches, PackedBatches)
        batch: Batch = self.task.collate(examples, rows, packed=packed, capacity=capacity)
        return replace(batch, origin=Origin(rows, examples, partial(self._collate, examples)))

    def after(self, taken: int) -> StreamPosition:
        """Return the position after so many batches were taken; a thread may have made more of them by then."""
        epoch, batch = self.start.epoch, self.start.batch + taken
        for size in self._sizes:
            if batch < size:
                break
            epoch, batch = epoch + 1, batch - size
        return StreamPosition(epoch, batch)


def build_plan(model: nn.Module, examples: Examples, settings: TrainConfig, *, seed: int) -> Plan:
    """Return streams of running text for truncated backpropagation, else batches of rows."""
    if settings.truncate is not None:
        size, parts = settings.batch_tokens, settings.accumulate
        return Streams(examples, batch_tokens=size, truncate=settings.truncate, parts=parts, seed=seed)
    return build_batches(model, examples, batch_tokens=settings.batch_tokens, seed=seed)


def build_batches(model: nn.Module, examples: Examples, *, batch_tokens: int, seed: int = 0) -> Batches | PackedBatches:
    """Return packed batches for a transformer on a GPU, whose kernels take rows of many lengths; else padded ones."""
    on_gpu = next(model.parameters()).device.type == "cuda"
    kind = PackedBatches if on_gpu and getattr(model, "packs", False) else Batches
    return kind(examples.lengths, batch_tokens=batch_tokens, seed=seed)
