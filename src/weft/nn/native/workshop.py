"""Private temporary folders, and files that are written as a whole or not at all.

Unfinished files and folders are locked by the process that makes them. The system releases the lock however that
process ends, and the next process removes what is not locked.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from weft import limits

_MAKING, _UNFINISHED = "weft-making-", ".unfinished-"
_READ_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_LIBRARY_NAME: Final = re.compile(r"(?P<name>[0-9a-f]{32})-(?P<digest>[0-9a-f]{64})\.so")


@contextmanager
def workshop(parent: Path) -> Iterator[tuple[Path, int]]:
    """An empty private folder and the descriptor that locks it; the folder is removed afterwards."""
    with os.scandir(parent) as entries:
        left = [entry.path for entry in entries if entry.name.startswith(_MAKING)]
    for path in left:
        if (lock := _hold(path)) is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(lock)
    lock = None
    while lock is None:  # another process may take the new folder for one that was left, before it is locked
        folder = tempfile.mkdtemp(prefix=_MAKING, dir=parent)
        lock = _hold(folder)
    try:
        yield Path(folder), lock
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def keep(folder: int, name: str, content: bytes) -> None:
    """Write a file into an opened folder, bring it to the disk, then give it its name; an OSError leaves nothing."""
    for left in os.listdir(folder):
        if left.startswith(_UNFINISHED) and (lock := _hold(left, folder)) is not None:
            _remove(left, folder)
            os.close(lock)
    unfinished = f"{_UNFINISHED}{os.getpid()}-{name}"
    _remove(unfinished, folder)
    opened = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=folder)
    try:
        with open(opened, "wb") as file:  # noqa: PTH123
            _lock(opened)
            file.write(content)
            file.flush()
            os.fsync(opened)
            digest = hashlib.sha256(content).hexdigest()
            os.rename(unfinished, f"{name}-{digest}.so", src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)
    except OSError:
        _remove(unfinished, folder)
        raise


def read_kept(folder: int, name: str) -> bytes | None:
    """The content kept under a name, if it is our regular file, writable by us alone, and has the hash of its name.

    Anything else under that name is removed.
    """
    for entry in os.listdir(folder):
        found = _LIBRARY_NAME.fullmatch(entry)
        if found is None or found["name"] != name:
            continue
        content = _read_ours(entry, folder)
        if content is not None and hashlib.sha256(content).hexdigest() == found["digest"]:
            return content
        _remove(entry, folder)
    return None


def _read_ours(name: str, folder: int) -> bytes | None:
    try:
        opened = os.open(name, _READ_FLAGS, dir_fd=folder)
    except OSError:  # a link, or gone
        return None
    info = os.fstat(opened)
    ours = stat.S_ISREG(info.st_mode) and info.st_uid == os.geteuid() and not info.st_mode & 0o022
    if not ours or info.st_size > limits.LIBRARY_FILE_BYTES:
        os.close(opened)
        return None
    with open(opened, "rb") as file:  # noqa: PTH123
        return file.read()


def _remove(name: str, folder: int) -> None:
    with suppress(OSError):
        os.unlink(name, dir_fd=folder)


def _hold(path: str, folder: int | None = None) -> int | None:
    """A descriptor that locks the file or folder; None if it is another user's, or another process holds it."""
    try:
        opened = os.open(path, _READ_FLAGS, dir_fd=folder)
    except OSError:
        return None
    # The last check comes after the lock: the process that held it may have removed the file.
    if os.fstat(opened).st_uid == os.geteuid() and _lock(opened) and os.fstat(opened).st_nlink:
        return opened
    os.close(opened)
    return None


def _lock(opened: int) -> bool:
    import fcntl  # Windows has none

    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
