"""Writing beside the training: models and checkpoints are handed over as copies, and a thread writes them.

Writes are made one after the other, in the order in which they were handed over. One of each kind may be under way; the
next waits for it, so that memory holds one copy. What fails is raised by `settle`, and `failed` is set before. Where
the run folder itself is gone or cannot be written any more, a new folder takes its place.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from weft.disk import open_regular
from weft.errors import Fault, show_path
from weft.run.checkpoint import Checkpoints, remove
from weft.run.claiming import ATTEMPTS, JOURNAL, identity

FULL: Final = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}
"""Errors that pass when room is made; another folder would not help, and the last checkpoint is whole."""

Write = Callable[[Path], None]


class Saver:
    """Writes into the folder of a run, which must be the one that it was when training began.

    `folder` is where it writes now. `given` is where training began and its journal is written to the end.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = self.given = folder
        self._full = Path(os.path.abspath(folder))  # noqa: PTH100
        self._began = self._identity = identity(folder)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="weft-saver")
        self._waiting: dict[str, Future[None]] = {}
        self._errors: list[BaseException] = []

    def __enter__(self) -> Saver:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """All that was handed over is on the disk; what failed is raised unless something else is under way."""
        self._thread.shutdown()
        if kind is None:
            self.settle()

    @property
    def failed(self) -> bool:
        """Whether something could not be written."""
        return bool(self._errors)

    @contextmanager
    def noting(self) -> Iterator[None]:
        """A file that cannot be written inside the block counts as a write that failed: training ends and is saved."""
        try:
            yield
        except Fault as fault:
            self._errors.append(fault)

    def hand_over(self, kind: str, write: Write) -> None:
        """Have the thread call `write` with the folder; all that it needs must be its own."""
        self.wait(kind)
        self._waiting[kind] = self._thread.submit(self._write, write)

    def wait(self, kind: str) -> None:
        """Wait until what was last handed over of that kind is written."""
        if kind in self._waiting:
            self._waiting.pop(kind).result()

    def settle(self) -> None:
        """Wait for everything, and raise the first error there was."""
        for kind in list(self._waiting):
            self.wait(kind)
        if not self._errors:
            return
        error = self._errors[0]
        if isinstance(error, Fault) and self.folder != self.given:
            place = show_path(str(self.folder))
            goes_on = f"go on with --out {place} --resume" if Checkpoints(self.folder).steps() else "the model is whole"
            raise Fault(error.what, where=error.where, cure=f"what was learned is in {place}: {goes_on}") from error
        raise error

    def _write(self, write: Write) -> None:
        try:
            self._check()
            if self.folder != self.given:  # the journal is still written where the training began
                self._copy_journal(self.folder)
            write(self.folder)
        except (Fault, OSError) as error:
            fault = self._explain(error)
            self._errors.append(fault)
            if getattr(fault.__cause__, "errno", None) not in FULL:
                self._move(write)
        except BaseException as error:  # raised where it ends the training, in that thread
            self._errors.append(error)

    def _check(self) -> None:
        if identity(self.folder) != self._identity:
            raise Fault("was renamed, removed or replaced while the model was trained", where=str(self.folder))

    def _explain(self, error: Fault | OSError) -> Fault:
        """The error of a write: what happened to the folder, if that is why, or what the system said."""
        try:
            self._check()
        except Fault as fault:
            return fault
        if isinstance(error, Fault):
            return error
        told = Fault(f"cannot be written: {error.strerror or error}", where=str(error.filename or self.folder))
        told.__cause__ = error
        return told

    def _move(self, write: Write) -> None:
        """Write into a new folder from here on, beside the old one or, where that is impossible, the system's own."""
        for folder in self._elsewhere():
            with suppress(Fault, OSError):
                self._copy_journal(folder)
                write(folder)
                self.folder, self._identity = folder, identity(folder)
                return
            remove(folder)

    def _copy_journal(self, folder: Path) -> None:
        if identity(self.given) == self._began:
            with (
                suppress(FileNotFoundError),
                open_regular(self.given / JOURNAL) as source,
                (folder / JOURNAL).open("wb") as target,
            ):
                shutil.copyfileobj(source, target)

    def _elsewhere(self) -> Iterator[Path]:
        """New folders that may be written: `NAME-rescued` beside the folder, and one where temporary files are."""
        name = f"{self._full.name}-rescued"
        with suppress(OSError):
            for number in range(1, ATTEMPTS):
                with suppress(FileExistsError):
                    beside = self._full.with_name(name if number == 1 else f"{name}-{number}")
                    beside.mkdir()
                    yield beside
                    break
        with suppress(OSError):
            yield Path(tempfile.mkdtemp(prefix=f"weft-{name}-"))
