"""Reading regular files only, writing whole files or none, and syncing both to the disk."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import Final

# Opening a named pipe does not block, and a link is not followed. Windows has neither flag.
_READ_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)

_DESCRIPTORS: Final = ("/dev/fd/", "/proc/self/fd/", "/dev/stdin")
"""Paths of files that another process opened for this one, such as the pipe of a shell's <(command)."""


@contextmanager
def open_regular(path: Path, *, most: int | None = None, follow: bool = False) -> Iterator[BufferedReader]:
    """Open a file of at most `most` bytes to read; raises an OSError if it is a link, pipe, device or folder.

    The checks use the descriptor, so that the file cannot be replaced after them. With `follow` the path may be a link,
    for a file that the user names, or a pipe that was opened for this process.
    """
    try:
        opened = os.open(path, _READ_FLAGS if follow else _READ_FLAGS | _NO_LINK)
    except OSError as error:
        if path.is_symlink() and not follow:
            raise OSError(error.errno, "is a link, which is never followed", str(path)) from None
        raise
    try:
        info = os.fstat(opened)
        if follow and stat.S_ISFIFO(info.st_mode) and str(path).startswith(_DESCRIPTORS):
            os.set_blocking(opened, True)
        elif stat.S_ISDIR(info.st_mode):  # of which `open` raises an error without its path, and leaves it open
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        elif not stat.S_ISREG(info.st_mode):
            raise OSError(None, "is no regular file", str(path))
        if most is not None and info.st_size > most:
            raise OSError(None, f"has {info.st_size:,} bytes, and {most:,} is the limit", str(path))
        file = open(opened, "rb")  # noqa: PTH123, SIM115
    except BaseException:
        os.close(opened)
        raise
    with file:
        yield file


def read_regular(path: Path, *, most: int, follow: bool = False) -> bytes:
    """Return the content of such a file; of one that grows meanwhile, no more than the limit."""
    with open_regular(path, most=most, follow=follow) as file:
        return file.read(most)


def atomic_write(
    path: Path, content: bytes | Callable[[Path], object], *, before_rename: Callable[[], None] | None = None
) -> None:
    """Write a file so that `path` is the old file or the whole new one, also after a kill or a loss of power.

    The content is bytes, or a function that writes the file at the path it is called with. It is written under a
    temporary name in the same folder and synced; then the file is renamed and the folder synced. `before_rename` is
    called when the new content is on the disk and the old file still has the name.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        if isinstance(content, bytes):
            temporary.write_bytes(content)
        else:
            content(temporary)
        sync(temporary)
        if before_rename is not None:
            before_rename()
        temporary.replace(path)
        sync(path.parent)
    finally:
        with suppress(OSError):  # it was renamed, or the folder is gone
            temporary.unlink()


def sync(path: Path) -> None:
    """Sync a file, or the names in a folder, to the disk. Only POSIX can sync a folder."""
    if path.is_dir() and os.name != "posix":
        return
    opened = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def is_locked(folder: Path) -> bool:
    """Return whether another process holds the lock of a folder, as a training does. Only POSIX has such locks.

    The lock is only tried, shared, and released at once.
    """
    if os.name != "posix":
        return False
    import fcntl

    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | _NO_LINK)
    except OSError:
        return False
    try:
        fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(opened)
    return False
