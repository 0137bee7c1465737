"""Files that are there as a whole or not at all, stay there when the machine goes down, and are what they seem."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Final

# A named pipe that nobody writes to does not block, and a link is not followed. Windows has neither flag.
_PLAINLY: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)

_DESCRIPTORS: Final = ("/dev/fd/", "/proc/self/fd/", "/dev/stdin")
"""Names of what was opened for this process by another, such as a shell that writes a command's output into a pipe."""


@contextmanager
def open_regular(path: Path, *, most: int | None = None, follow: bool = False) -> Iterator[BufferedReader]:
    """A file to read that is no link, pipe, device or folder and has at most so many bytes; else an OSError says why.

    The checks are made on the file that was opened: another one under the same name cannot take its place. With
    `follow` the path may be a link, for a file that a person names, or a pipe that was opened for this process.
    """
    try:
        opened = os.open(path, _PLAINLY if follow else _PLAINLY | _NO_LINK)
    except OSError as error:
        if path.is_symlink() and not follow:
            raise OSError(error.errno, "is a link, which is never followed", str(path)) from None
        raise
    with open(opened, "rb") as file:  # noqa: PTH123
        info = os.fstat(opened)
        if follow and stat.S_ISFIFO(info.st_mode) and str(path).startswith(_DESCRIPTORS):
            os.set_blocking(opened, True)
        elif not stat.S_ISREG(info.st_mode):
            raise OSError(None, "is no regular file", str(path))
        if most is not None and info.st_size > most:
            raise OSError(None, f"has {info.st_size:,} bytes, and {most:,} is the limit", str(path))
        yield file


def read_regular(path: Path, *, most: int, follow: bool = False) -> bytes:
    """The content of such a file; of one that grows meanwhile, no more than the limit."""
    with open_regular(path, most=most, follow=follow) as file:
        return file.read(most)


def write_whole(path: Path, text: str) -> None:
    """Write a file under another name, bring it to the disk, and only then give it its name."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".write-", delete=False, encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    Path(file.name).replace(path)


def sync(path: Path) -> None:
    """Bring a file, or the names in a folder, to the disk. Only POSIX can open a folder for it."""
    if path.is_dir() and os.name != "posix":
        return
    opened = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
