"""A folder for a run: new, empty or its own, held by one process."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from weft.errors import RunError
from weft.run.manifest import MANIFEST

JOURNAL, CHECKPOINTS = "metrics.jsonl", "checkpoints"


@contextmanager
def claimed(out: str | Path | None, task: str, *, resume: bool = False) -> Iterator[Path]:
    """A folder for a run, new or empty or, to resume it, its own; removed again if nothing was written before a fault.

    While the block runs no other process can resume the same run.
    """
    folder = claim(out, task, resume=resume)
    try:
        with locked(folder):
            yield folder
    except BaseException:
        with suppress(OSError):  # a folder that is not empty stays
            folder.rmdir()
            if out is None:
                folder.parent.rmdir()
        raise


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder for this process; the system lets go of it however the process ends. Only POSIX has this."""
    if os.name != "posix":
        yield
        return
    import fcntl

    opened = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            cure = "wait for it, or end it"
            raise RunError("another process is training here", where=str(folder), cure=cure) from None
        yield
    finally:
        os.close(opened)


def claim(out: str | Path | None, task: str, *, resume: bool = False) -> Path:
    """The given folder, or the next free `runs/TASK-N`, made if need be; writable, and empty unless it is resumed."""
    if resume and out is None:
        raise RunError("needs the folder of the run", where="--resume", cure="add --out DIR")
    folder = Path(out) if out is not None else _next_free(Path("runs"), task)
    if folder.exists() and not folder.is_dir():
        raise RunError("is a file, not a folder", where=str(folder), cure="choose another --out")
    if folder.exists() and any(folder.iterdir()):
        if not resume:
            cure = "go on with --resume, or choose another --out" if began(folder) else "choose another --out"
            raise RunError("is not empty", where=str(folder), cure=cure)
        if not began(folder):
            raise RunError("is not empty and no run", where=str(folder), cure="choose another --out")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".writable").touch()
        (folder / ".writable").unlink()
    except OSError as error:
        reason = error.strerror or str(error)
        raise RunError(f"cannot be written: {reason}", where=str(folder), cure="choose another --out") from None
    return folder


def began(folder: Path) -> bool:
    """Whether a run began in this folder, so that what is in it may be written over."""
    names = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
    return not names or bool(names & {MANIFEST, JOURNAL, CHECKPOINTS})


def _next_free(parent: Path, task: str) -> Path:
    numbers = [
        int(match[1])
        for path in (parent.iterdir() if parent.is_dir() else ())
        if (match := re.fullmatch(rf"{task}-(\d+)", path.name))
    ]
    return parent / f"{task}-{max(numbers, default=0) + 1}"
