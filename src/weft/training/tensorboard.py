"""Logs for TensorBoard with the values of the journal, if the package is installed."""

from __future__ import annotations

from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from weft.errors import RunError
from weft.training.events import Started, Validated
from weft.training.recorder import Recorder

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

FOLDER = "tensorboard"


class TensorBoard(Recorder):
    """Writes the events of a training to `tensorboard/` in the run folder; without the package it does nothing.

    A resumed run removes the events after the update from which it is resumed.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.path, self.done = folder / FOLDER, 0
        self.wanted = find_spec("tensorboard") is not None
        if self.wanted and self.path.is_symlink():
            raise RunError("is a link, which is never followed", where=str(self.path), cure="remove it")
        self.writer: SummaryWriter | None = None

    def __enter__(self) -> TensorBoard:
        return self

    def start(self, event: Started) -> None:
        self.done = event.done

    def update(self, step: int, values: dict[str, float]) -> None:
        self._scalars("train", values, step)

    def validation(self, event: Validated) -> None:
        self._scalars("valid", event.metrics, event.step)

    def close(self) -> None:
        if self.writer is not None:
            with suppress(OSError):
                self.writer.close()

    def _scalars(self, part: str, values: dict[str, float], step: int) -> None:
        if self.writer is not None and not self.path.is_dir():
            self.wanted = False  # the run folder was removed; a thread of the package would print a traceback
        if not self.wanted:
            return
        try:
            if self.writer is None:
                from torch.utils.tensorboard import SummaryWriter

                self.writer = SummaryWriter(str(self.path), purge_step=self.done + 1 if self.done else None)
            for name, value in values.items():
                self.writer.add_scalar(f"{part}/{name}", value, step)
        except OSError:  # the journal is on the same disk and reports the error
            self.wanted = False
