"""metrics.jsonl: a line for every validation and every few updates, appended as training goes."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from weft.errors import Fault
from weft.training.events import Ended, Event, Saving, Validated
from weft.training.step import Awaited, Step

EVERY = 10
"""Updates between two lines about the loss."""


class Journal:
    """Writes events to a file, a JSON object per line; `seconds` counts from the start.

    An update whose numbers are still on the device is written when they have arrived, at the latest before the next
    validation. A run that goes on keeps the first `length` bytes of its file and the `seconds` that it took so far.
    """

    def __init__(self, path: Path, *, length: int = 0, seconds: float = 0.0) -> None:
        self.path = path
        self.began = time.monotonic() - seconds
        if path.exists() and path.stat().st_size > length:
            os.truncate(path, length)
        self.file: IO[str] | None = None
        self.awaited = Awaited()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(RuntimeError):  # what ended the training may have been the device
            self._steps(self.awaited.arrived())
        if self.file is not None:
            self.file.close()

    def write(self, event: Event) -> None:
        match event:
            case Step():
                if event.number % EVERY == 0 or event.number == 1:
                    self.awaited.add(event)
                self._steps(self.awaited.arrived())
            case Validated():
                self._steps(self.awaited.all())
                self._line(step=event.step, valid=event.metrics, best=event.best)
            case Saving():
                self._steps(self.awaited.all())
                self._sync()
            case Ended():
                self._steps(self.awaited.all())
            case _:
                pass

    def _steps(self, steps: Iterable[Step]) -> None:
        for step in steps:
            self._line(
                step=step.number,
                loss=step.loss,
                rate=step.rate,
                gradient=step.gradient,
                tokens_per_second=step.tokens / max(step.seconds, 1e-9),
            )

    def _line(self, **values: Any) -> None:
        values["seconds"] = round(time.monotonic() - self.began, 3)
        with self._writing():
            if self.file is None:
                self.file = self.path.open("a", encoding="utf-8", newline="\n")
            self.file.write(json.dumps(values) + "\n")
            self.file.flush()

    def _sync(self) -> None:
        with self._writing():
            if self.file is not None:
                os.fsync(self.file.fileno())

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise Fault(
                f"cannot be written: {error.strerror}", where=str(self.path), cure="is the disk full?"
            ) from None
