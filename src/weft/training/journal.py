"""metrics.jsonl: a line for every validation and every few updates, appended as training goes."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import IO, Any

from weft.errors import Fault
from weft.training.events import Event, Validated
from weft.training.loop import Step

EVERY = 10
"""Updates between two lines about the loss."""


class Journal:
    """Writes events to a file, a JSON object per line; `seconds` counts from the start."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.began = time.monotonic()
        self.file: IO[str] | None = None

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        if self.file is not None:
            self.file.close()

    def write(self, event: Event) -> None:
        match event:
            case Step() if event.number % EVERY == 0 or event.number == 1:
                self._line(
                    step=event.number,
                    loss=event.loss,
                    rate=event.rate,
                    gradient=event.gradient,
                    tokens_per_second=event.tokens / event.seconds,
                )
            case Validated():
                self._line(step=event.step, valid=event.metrics, best=event.best)
            case _:
                pass

    def _line(self, **values: Any) -> None:
        values["seconds"] = round(time.monotonic() - self.began, 3)
        try:
            if self.file is None:
                self.file = self.path.open("a", encoding="utf-8", newline="\n")
            self.file.write(json.dumps(values) + "\n")
            self.file.flush()
        except OSError as error:
            raise Fault(
                f"cannot be written: {error.strerror}", where=str(self.path), cure="is the disk full?"
            ) from None
