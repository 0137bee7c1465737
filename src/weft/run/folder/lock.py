"""Locks: one process for a run folder, which is new, empty or its own, and one training for a process."""

from __future__ import annotations

import os
import re
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from weft.disk import sync
from weft.errors import RunError
from weft.run.folder.files import CHECKPOINTS, JOURNAL, MANIFEST

MAX_CLAIMS = 1000
"""Times that a folder is claimed again because other processes removed it, or took it first, before it was locked."""

_one_training = threading.Lock()


class Claim(NamedTuple):
    """A folder, the descriptor that locks it (None where the system has no locks), and the folders made for it."""

    folder: Path
    lock: int | None
    made: list[Path]


@contextmanager
def claim_folder(out: str | Path | None, task: str, *, resume: bool | None = False) -> Iterator[Path]:
    """Make and lock a folder for a run: a new or empty one or, to resume it, that of the run itself.

    Without `out` it is the next free `runs/TASK-N`. No other process can claim it while the block runs. A folder that
    was made here is removed again if an error ends the block before anything was written.
    """
    if resume and out is None:
        raise RunError("needs the folder of the run", where="--resume", cure="add --out DIR")
    folder, lock, made = _claim(out, task)
    try:
        _check(folder, resume=resume)
        yield folder
    except BaseException:
        # Remove only what this call has made, and only while it is locked: another process may use it afterwards.
        if _is_locked(folder, lock):
            with suppress(OSError):  # a folder that is not empty stays
                for path in made:
                    path.rmdir()
        raise
    finally:
        _release(lock)


@contextmanager
def lock_folder(folder: Path, *, doing: str = "is training here") -> Iterator[None]:
    """Lock an existing folder for this process; `doing` is what an error says of the process that holds the lock."""
    lock = _lock(folder, doing=doing)
    try:
        yield
    finally:
        _release(lock)


@contextmanager
def one_training() -> Iterator[None]:
    """Refuse a second training in this process, from any thread: seeds and threads belong to the whole process."""
    lock = _one_training  # a child that is forked meanwhile has a new one and must not release this one
    if not lock.acquire(blocking=False):
        what = "another training runs in this process, and they would draw from the same random numbers"
        raise RunError(what, cure="start a process for each, or train one after the other")
    try:
        yield
    finally:
        lock.release()


def _renew() -> None:
    global _one_training
    _one_training = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)  # no training runs in a new process


def identity(folder: Path | int) -> tuple[int, int] | None:
    """Return the device and inode of a folder, given by name or descriptor; None if it is gone.

    No other folder has them while this one is open.
    """
    try:
        found = os.stat(folder)  # noqa: PTH116
    except OSError:
        return None
    return found.st_dev, found.st_ino


def has_run(folder: Path) -> bool:
    """Return whether a run began in this folder, or it is empty, so that files in it may be overwritten."""
    names = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
    return not names or bool(names & {MANIFEST, JOURNAL, CHECKPOINTS})


def _claim(out: str | Path | None, task: str) -> Claim:
    """Make the folder if needed and lock it; try again where other processes make and remove the same one."""
    for _ in range(MAX_CLAIMS):
        folder = Path(out) if out is not None else next_free(Path("runs"), task)
        made = _make(folder)
        if out is None and folder not in made:  # another process was faster
            continue
        try:
            lock = _lock(folder)
        except FileNotFoundError:  # removed by the process that had made it
            continue
        except RunError:
            if out is None:
                continue
            raise
        if _is_locked(folder, lock):
            return Claim(folder, lock, made)
        _release(lock)
    raise RunError("other processes make and remove it all the time", where=str(folder), cure="choose another --out")


def _lock(folder: Path, *, doing: str = "is training here") -> int | None:
    """Return a descriptor with a lock, which the system releases however the process ends. Only POSIX has this."""
    if os.name != "posix":
        return None
    import fcntl

    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _unwritable(folder, error) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        cure = "wait for it, end it, or choose another --out"
        raise RunError(f"another process {doing}", where=str(folder), cure=cure) from None
    except OSError:  # a file system without locks
        pass
    return lock


def _is_locked(folder: Path, lock: int | None) -> bool:
    """Return whether the folder of that name is the one that was locked, and not one that was made since."""
    return lock is None or identity(folder) == identity(lock)


def _release(lock: int | None) -> None:
    if lock is not None:
        os.close(lock)


def _make(folder: Path) -> list[Path]:
    """Make a folder and its missing parents; return those that this call has made, the innermost first."""
    made: list[Path] = []
    try:
        for path in reversed([path for path in (folder, *folder.parents) if not path.is_dir()]):
            with suppress(FileExistsError):  # another process was faster, or it is a file
                path.mkdir()
                made.insert(0, path)
                sync(path.parent)  # or a loss of power may lose the name, and with it all checkpoints
        if not stat.S_ISDIR(folder.stat().st_mode):
            raise RunError("is a file, not a folder", where=str(folder), cure="choose another --out")
    except FileNotFoundError:  # another process has removed it, or a parent
        if folder.is_symlink():
            raise RunError("is a link to nothing", where=str(folder), cure="choose another --out") from None
    except OSError as error:
        raise _unwritable(folder, error) from None
    return made


def _check(folder: Path, *, resume: bool | None) -> None:
    """Raise unless the folder is writable, and empty or, to be resumed, that of a run."""
    try:
        if any(folder.iterdir()):
            if not resume:
                resumable = resume is not None and has_run(folder)
                cure = "go on with --resume, or choose another --out" if resumable else "choose another --out"
                raise RunError("is not empty", where=str(folder), cure=cure)
            if not has_run(folder):
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


def next_free(parent: Path, name: str) -> Path:
    """Return NAME-N in the parent folder, with the number after the highest that is there."""
    numbers = [
        int(match[1])
        for path in (parent.iterdir() if parent.is_dir() else ())
        if (match := re.fullmatch(rf"{re.escape(name)}-([0-9]{{1,15}})", path.name))
    ]
    return parent / f"{name}-{max(numbers, default=0) + 1}"
