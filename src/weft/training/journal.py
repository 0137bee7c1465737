"""metrics.jsonl: a line for every validation and every few updates, appended as training goes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from weft.documents import to_json
from weft.errors import Fault
from weft.training.events import Validated
from weft.training.recorder import Recorder


class Journal(Recorder):
    """Writes events to a file, a JSON object per line; `seconds` counts from the start.

    A run that goes on keeps the first `length` bytes of its file and the `seconds` that it took so far.
    """

    def __init__(self, path: Path, *, length: int = 0, seconds: float = 0.0) -> None:
        super().__init__()
        self.path = path
        self.began = time.monotonic() - seconds
        if path.exists() and path.stat().st_size > length:
            os.truncate(path, length)
        self.file: IO[str] | None = None

    def __enter__(self) -> Journal:
        return self

    def update(self, step: int, values: dict[str, float]) -> None:
        self._line(step=step, **values)

    def validation(self, event: Validated) -> None:
        self._line(step=event.step, valid=event.metrics, best=event.best)

    def save(self) -> None:
        with self._writing():
            if self.file is not None:
                os.fsync(self.file.fileno())

    def close(self) -> None:
        if self.file is not None:
            self.file.close()

    def _line(self, **values: Any) -> None:
        values["seconds"] = round(time.monotonic() - self.began, 3)
        with self._writing():
            if self.file is None:
                self.file = self.path.open("a", encoding="utf-8", newline="\n")
            self.file.write(to_json(values) + "\n")
            self.file.flush()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise Fault(
                f"cannot be written: {error.strerror}", where=str(self.path), cure="is the disk full?"
            ) from None
