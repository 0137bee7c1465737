"""The journal, metrics.jsonl: a line for every validation and every tenth update."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Any

from weft.documents import to_json
from weft.errors import Fault
from weft.training.events import Validated
from weft.training.recorder import Recorder


class Journal(Recorder):
    """Writes events to a file, a JSON object per line; `seconds` counts from the start of the run.

    A resumed run keeps the first `length` bytes of its file and the `seconds` that it took so far; of a file that is
    shorter, because it was edited, all complete lines. Lines that the system refused to write stay in memory and are
    written with the next event: a checkpoint that can be saved has a complete journal.
    """

    def __init__(self, path: Path, *, length: int = 0, seconds: float = 0.0) -> None:
        super().__init__()
        self.path = path
        self.began = time.monotonic() - seconds
        self.file: FileIO | None = None
        self.unwritten = b""
        if os.path.lexists(path):
            with self._writing():
                self.file = _open(path)
                content = self.file.read(length)
                self.file.truncate(length if len(content) == length else content.rfind(b"\n") + 1)

    def __enter__(self) -> Journal:
        return self

    def update(self, step: int, values: dict[str, float]) -> None:
        self._line(step=step, **values)

    def validation(self, event: Validated) -> None:
        self._line(step=event.step, valid=event.metrics, best=event.best)

    def close(self) -> None:
        if self.file is not None:
            with self._writing():
                self.file.close()

    def _line(self, **values: Any) -> None:
        values["seconds"] = round(time.monotonic() - self.began, 3)
        self.unwritten += (to_json(values) + "\n").encode()

    def flush(self) -> None:
        if not self.unwritten:
            return
        with self._writing():
            self.file = self.file or _open(self.path, os.O_CREAT)
            size = os.fstat(self.file.fileno()).st_size
            try:
                rest = self.unwritten
                while rest:  # a write may be partial
                    rest = rest[self.file.write(rest) :]
            except OSError:
                with suppress(OSError):  # half a line would become part of the next one in a resumed run
                    os.ftruncate(self.file.fileno(), size)
                raise
        self.unwritten = b""

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise Fault(
                f"cannot be written: {error.strerror}", where=str(self.path), cure="is the disk full?"
            ) from error


def _open(path: Path, flags: int = 0) -> FileIO:
    """Open a regular file to append to; raises an OSError for a link, pipe or device."""
    flags |= os.O_RDWR | os.O_APPEND
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"):
        flags |= getattr(os, name, 0)
    try:
        opened = os.open(path, flags, 0o666)
    except OSError as error:
        if path.is_symlink():
            raise OSError(error.errno, "it is a link, which is never followed", str(path)) from None
        raise
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise OSError(None, "it is no regular file", str(path))
    return FileIO(opened, "r+")
