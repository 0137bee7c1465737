"""Events for TensorBoard, beside the journal and from the same values, where the package is installed."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from weft.training.events import Ended, Event, Started, Validated
from weft.training.journal import EVERY
from weft.training.step import Awaited, Step

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

FOLDER = "tensorboard"


class TensorBoard:
    """Consumes the events of a training and writes them to `tensorboard/` in the run folder; without the package it
    does nothing. A run that goes on takes back what was written of updates after the one it goes on from.
    """

    def __init__(self, folder: Path) -> None:
        self.path, self.done = folder / FOLDER, 0
        self.wanted = find_spec("tensorboard") is not None
        self.writer: SummaryWriter | None = None
        self.awaited = Awaited()

    def __enter__(self) -> TensorBoard:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(RuntimeError):  # what ended the training may have been the device
            self._steps(self.awaited.arrived())
        if self.writer is not None:
            with suppress(OSError):
                self.writer.close()

    def write(self, event: Event) -> None:
        if not self.wanted:
            return
        match event:
            case Started():
                self.done = event.done
            case Step():
                if event.number % EVERY == 0 or event.number == 1:
                    self.awaited.add(event)
                self._steps(self.awaited.arrived())
            case Validated():
                self._steps(self.awaited.all())
                self._scalars("valid", event.metrics, event.step)
            case Ended():
                self._steps(self.awaited.all())
            case _:
                pass

    def _steps(self, steps: Iterable[Step]) -> None:
        for step in steps:
            speed = step.tokens / max(step.seconds, 1e-9)
            values = {"loss": step.loss, "rate": step.rate, "gradient": step.gradient, "tokens_per_second": speed}
            self._scalars("train", values, step.number)

    def _scalars(self, part: str, values: dict[str, float], step: int) -> None:
        try:
            if self.writer is None:
                from torch.utils.tensorboard import SummaryWriter

                self.writer = SummaryWriter(str(self.path), purge_step=self.done + 1 if self.done else None)
            for name, value in values.items():
                self.writer.add_scalar(f"{part}/{name}", value, step)
        except OSError:  # the journal meets the same disk, and says so
            self.wanted = False
