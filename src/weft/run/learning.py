"""The training loop as a configuration describes it: optimizer, schedule, stream of batches, and where it stands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Any

from torch import nn

from weft.config import Config
from weft.data import Examples, PackedBatches
from weft.run.checkpoint_state import Chance, Moments, Stateful
from weft.run.stream import Place, Plan, Stream
from weft.tasks import Batch, Task, Tree
from weft.training import (
    SCHEDULES,
    Carry,
    LoopOptions,
    Plateau,
    Scaling,
    Schedule,
    TrainConfig,
    Update,
    ahead,
    build_objective,
    build_optimizer,
    steps,
)
from weft.training.ranks import ALONE, Ranks

WARMUP = 100
"""Updates over which the rate rises where nothing is said about it, in a run that is long enough."""


class Learning:
    """Updates of one model. `number` of them are made; `state` is all that the next ones depend on but the weights."""

    def __init__(
        self,
        task: Task,
        model: nn.Module,
        examples: Examples,
        plan: Plan,
        *,
        config: Config,
        total: int,
        ranks: Ranks = ALONE,
    ) -> None:
        settings = config.train
        self.model, self.settings, self.ranks = model, settings, ranks
        self.objective = build_objective(task, model, settings)
        self.device = next(model.parameters()).device
        self.optimizer = build_optimizer(
            model, kind=settings.optimizer, rate=settings.rate, weight_decay=settings.weight_decay, beta2=settings.beta2
        )
        self.schedule = build_schedule(settings, total)
        self.scaling = Scaling(self.device) if settings.precision == "fp16" else None
        self.stream = Stream(task, examples, plan)
        self.number = self.taken = 0
        parts: dict[str, Any] = {
            "chance": Chance(),
            "objective": self.objective,
            "optimizer": Moments(model, self.optimizer),
            "schedule": self.schedule,
            "scaling": self.scaling,
        }
        self.parts: dict[str, Stateful] = {name: part for name, part in parts.items() if hasattr(part, "restore")}

    def steps(self) -> Iterator[Update]:
        """Updates without end, after those that were made before."""
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
            ranks=self.ranks,
        )
        # A GPU runs out of memory, and should do so now; a processor only becomes slow, and --dry-run tells its memory.
        largest = self.stream.largest() if self.device.type == "cuda" else None
        # A processor that computes has no core to spare for a thread that makes batches.
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

    def observe(self, *, progress: bool) -> None:
        """Whether a validation brought something better, for a schedule that goes by it."""
        if isinstance(self.schedule, Plateau):
            self.schedule.observe(progress=progress)

    def collect(self) -> None:
        """Bring to every rank what the others carry from update to update, before a checkpoint is written."""
        if isinstance(self.objective, Carry):
            self.objective.collect(self.ranks, parts=self.settings.accumulate)

    def state(self) -> Tree:
        place = self.stream.after(self.taken)
        return {
            "number": self.number,
            "plan": type(self.stream.batches).__name__,
            "epoch": place.epoch,
            "batch": place.batch,
            "parts": {name: part.state() for name, part in self.parts.items()},
        }

    def restore(self, state: Tree) -> None:
        """Go on from there; to be called when nothing but `steps` is left to draw random numbers."""
        self.number, self.taken = state["number"], 0
        # Another device may need other batches; the epoch then begins again.
        same = state["plan"] == type(self.stream.batches).__name__
        self.stream.start = Place(state["epoch"], state["batch"] if same else 0)
        for name, part in self.parts.items():
            part.restore(state["parts"][name])

    def _count(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        for batch in batches:
            self.taken += 1
            yield batch


def build_schedule(settings: TrainConfig, total: int) -> Schedule:
    warmup = min(WARMUP, total // 4) if settings.warmup is None else settings.warmup
    if settings.schedule == "plateau":
        return Plateau(warmup, total, factor=settings.plateau_factor, patience=settings.plateau_patience)
    return SCHEDULES[settings.schedule](warmup, total)
