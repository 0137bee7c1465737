"""The cache folder, for compiled kernels and the tokens of large files.

$WEFT_CACHE names the folder; else it is `weft` in $XDG_CACHE_HOME or ~/.cache. WEFT_CACHE=off turns the cache off.

Compiled code is executed, so no other user may be able to put a file there. As sshd does for its keys, every folder of
the path is checked: its owner is this user or root, and no other user can write to it. (In a folder with the sticky
bit, such as /tmp, other users can add names but not replace ours.)
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
    """Return the folder `name` of the cache, made if needed; None if there is none that only this user can write to."""
    try:
        with open_cache(name):
            return cache_path(name)
    except OSError:
        return None


def cache_path(name: str) -> Path | None:
    """Return the path of the folder `name`, which may not exist; None if the cache is off or the user has no home."""
    given = os.environ.get("WEFT_CACHE")
    if given == OFF:
        return None
    try:
        return Path(given or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "weft")) / name
    except RuntimeError:  # no home
        return None


@contextmanager
def open_cache(name: str) -> Iterator[int | None]:
    """Yield a descriptor of the folder, made if needed; None without a cache, and on Windows.

    An OSError says why the folder cannot be used. The checks use descriptors, each opened from the one before, so a
    folder cannot be replaced after its check.
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
    """Open a folder inside another one; a new one is private to this user."""
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
