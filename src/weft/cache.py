"""Where weft keeps what it would otherwise have to make again: compiled kernels, the tokens of large files.

$WEFT_CACHE names the folder; else it is `weft` in $XDG_CACHE_HOME or ~/.cache. WEFT_CACHE=off keeps nothing.

Compiled code is executed, so nobody else may be able to put a file there. As sshd does for its keys, every folder of
the path is checked: it belongs to us or to root, and no one else can write to it. (In a folder with the sticky bit,
such as /tmp, others can add names and cannot replace ours.)
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

OFF: Final = "off"

_FOLDER: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)


def cache_folder(name: str) -> Path | None:
    """The folder `name` of the cache, made if need be; None without a place that we can write and nobody else can."""
    try:
        with open_cache(name):
            return cache_path(name)
    except OSError:
        return None


def cache_path(name: str) -> Path | None:
    """Where the folder `name` of the cache is or would be; None where the cache is off or the user has no home."""
    asked = os.environ.get("WEFT_CACHE")
    if asked == OFF:
        return None
    try:
        return Path(asked or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "weft")) / name
    except RuntimeError:  # no home
        return None


@contextmanager
def open_cache(name: str) -> Iterator[int | None]:
    """A descriptor of the folder, made if need be; None where there is no cache.

    An OSError says why the folder cannot be used. The checks are made on descriptors, each opened from the one before,
    so nobody can exchange a folder after its check. Windows has neither, and nothing is compiled there.
    """
    folder = cache_path(name)
    if folder is None:
        yield None
        return
    if os.name != "posix":
        folder.mkdir(parents=True, exist_ok=True)
        yield None
        return
    real = Path(os.path.realpath(folder))
    opened = os.open(real.anchor, _FOLDER)
    try:
        _check(opened, Path(real.anchor))
        for place in (*reversed(real.parents[:-1]), real):
            within = _enter(place.name, opened)
            os.close(opened)
            opened = within
            _check(opened, place)
        info = os.fstat(opened)
        if info.st_uid != os.geteuid() or info.st_mode & 0o022 or not os.access(real, os.W_OK):
            raise PermissionError(None, f"{real} is not yours alone to write to")
        yield opened
    finally:
        os.close(opened)


def _enter(name: str, folder: int) -> int:
    """Open a folder inside another one; a new one is ours alone."""
    with suppress(FileNotFoundError):
        return os.open(name, _FOLDER, dir_fd=folder)
    with suppress(FileExistsError):  # another process was faster
        os.mkdir(name, 0o700, dir_fd=folder)
    return os.open(name, _FOLDER, dir_fd=folder)


def _check(folder: int, path: Path) -> None:
    info = os.fstat(folder)
    if info.st_uid not in (0, os.geteuid()):
        raise PermissionError(None, f"{path} belongs to another user")
    if info.st_mode & 0o022 and not info.st_mode & stat.S_ISVTX:
        raise PermissionError(None, f"others can write to {path} (chmod go-w {path})")
