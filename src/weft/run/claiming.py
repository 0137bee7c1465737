"""A folder for a run: new, empty or its own, held by one process."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from weft.disk import sync
from weft.errors import RunError
from weft.run.manifest import MANIFEST

JOURNAL, CHECKPOINTS = "metrics.jsonl", "checkpoints"

ATTEMPTS = 1000
"""Times a folder is claimed that other processes remove, or are faster to take, before it is locked."""


class Claim(NamedTuple):
    """A folder, the descriptor that holds it (where the system has locks), and what was made for it."""

    folder: Path
    held: int | None
    made: list[Path]


@contextmanager
def claimed(out: str | Path | None, task: str, *, resume: bool = False) -> Iterator[Path]:
    """A folder for a run, new or empty or, to resume it, its own; removed again if nothing was written before a fault.

    While the block runs no other process can claim it. Without `out` it is the next free `runs/TASK-N`.
    """
    if resume and out is None:
        raise RunError("needs the folder of the run", where="--resume", cure="add --out DIR")
    folder, held, made = _claim(out, task)
    try:
        _check(folder, resume=resume)
        yield folder
    except BaseException:
        # Only what this call has made is its to remove, and only while it is locked is nobody else about to use it.
        if _is_held(folder, held):
            with suppress(OSError):  # a folder that is not empty stays
                for path in made:
                    path.rmdir()
        raise
    finally:
        _release(held)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder for this process."""
    held = _hold(folder)
    try:
        yield
    finally:
        _release(held)


def identity(folder: Path | int) -> tuple[int, int] | None:
    """Device and number of a folder, given by name or open: no other one has them while it is held. None if gone."""
    try:
        found = os.stat(folder)  # noqa: PTH116
    except OSError:
        return None
    return found.st_dev, found.st_ino


def began(folder: Path) -> bool:
    """Whether a run began in this folder, so that what is in it may be written over."""
    names = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
    return not names or bool(names & {MANIFEST, JOURNAL, CHECKPOINTS})


def _claim(out: str | Path | None, task: str) -> Claim:
    """Make the folder if need be and lock it, again and again where other processes make and remove the same one."""
    for _ in range(ATTEMPTS):
        folder = Path(out) if out is not None else _next_free(Path("runs"), task)
        made = _make(folder)
        if out is None and folder not in made:  # another process was faster
            continue
        try:
            held = _hold(folder)
        except FileNotFoundError:  # removed by the process that had made it
            continue
        except RunError:
            if out is None:
                continue
            raise
        if _is_held(folder, held):
            return Claim(folder, held, made)
        _release(held)
    raise RunError("other processes make and remove it all the time", where=str(folder), cure="choose another --out")


def _hold(folder: Path) -> int | None:
    """A descriptor with a lock, which the system releases however the process ends. Only POSIX has this."""
    if os.name != "posix":
        return None
    import fcntl

    try:
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _unwritable(folder, error) from None
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(held)
        cure = "wait for it, end it, or choose another --out"
        raise RunError("another process is training here", where=str(folder), cure=cure) from None
    except OSError:  # a file system without locks
        pass
    return held


def _is_held(folder: Path, held: int | None) -> bool:
    """Whether the folder of that name is the one that was locked, and not another that was made since."""
    return held is None or identity(folder) == identity(held)


def _release(held: int | None) -> None:
    if held is not None:
        os.close(held)


def _make(folder: Path) -> list[Path]:
    """Make a folder and those above it that are missing; the ones that this call has made, the innermost first."""
    made: list[Path] = []
    try:
        for path in reversed([path for path in (folder, *folder.parents) if not path.is_dir()]):
            with suppress(FileExistsError):  # another process was faster, or it is a file
                path.mkdir()
                made.insert(0, path)
                sync(path.parent)  # or a loss of power may take the name, and with it all checkpoints
        if not stat.S_ISDIR(folder.stat().st_mode):
            raise RunError("is a file, not a folder", where=str(folder), cure="choose another --out")
    except FileNotFoundError:  # another process has removed it, or what is above it
        if folder.is_symlink():
            raise RunError("is a link to nothing", where=str(folder), cure="choose another --out") from None
    except OSError as error:
        raise _unwritable(folder, error) from None
    return made


def _check(folder: Path, *, resume: bool) -> None:
    """The folder is writable, and it is empty unless the run in it is resumed."""
    try:
        if any(folder.iterdir()):
            if not resume:
                cure = "go on with --resume, or choose another --out" if began(folder) else "choose another --out"
                raise RunError("is not empty", where=str(folder), cure=cure)
            if not began(folder):
                raise RunError("is not empty and no run", where=str(folder), cure="choose another --out")
        probe = folder / ".writable"
        probe.unlink(missing_ok=True)  # left by a process that was killed, or a link, which would be followed
        probe.touch(exist_ok=False)
        probe.unlink()
    except OSError as error:
        raise _unwritable(folder, error) from None


def _unwritable(folder: Path, error: OSError) -> RunError:
    reason = error.strerror or str(error)
    return RunError(f"cannot be written: {reason}", where=str(folder), cure="choose another --out")


def _next_free(parent: Path, task: str) -> Path:
    numbers = [
        int(match[1])
        for path in (parent.iterdir() if parent.is_dir() else ())
        if (match := re.fullmatch(rf"{re.escape(task)}-([0-9]{{1,15}})", path.name))
    ]
    return parent / f"{task}-{max(numbers, default=0) + 1}"
