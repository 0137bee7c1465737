"""Copies of runs from the hub, in weft's cache: hub/OWNER--NAME/COMMIT, each checked before it got its name.

A branch is looked up on the hub each time, because it may have moved; a commit is not. Where the hub cannot be
reached, the copy that the branch meant last is used, and a line says so.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

from weft.cache import OFF, cache_folder, cache_path
from weft.console import SafeConsole, styled
from weft.disk import read_regular
from weft.errors import RunError
from weft.run.folder.files import MANIFEST, write_text
from weft.run.hub.address import Address
from weft.run.hub.client import Hub, Unreachable
from weft.run.hub.fetch import Cells, fetch

CACHE: Final = "hub"
REVISIONS: Final = "revisions"
"""The folder with a file for each branch: the commit that it meant."""

COMMIT_CHARACTERS: Final = 40

_COMMIT: Final = re.compile(r"[0-9a-f]{40}")


def copy_of(address: Address, *, cells: Cells | None = None) -> Path:
    """Return the folder with a copy of the run, downloaded first if the cache has none of that commit."""
    place = _place(address)
    if _COMMIT.fullmatch(address.revision) and _is_whole(place / address.revision):
        return place / address.revision
    hub = Hub(address)
    try:
        remote = hub.files()
    except Unreachable as error:
        commit = _last_commit(place, address)
        if commit is None:
            raise
        _say("{}: {}; the copy of {} is used", address, error.what, commit[:12])
        return place / commit
    folder = place / remote.commit
    with _alone(place):
        if not _is_whole(folder):
            _say("{}: downloading {}", address, remote.commit[:12])
            fetch(hub, remote, place / f".{remote.commit}.part", folder, cells=cells)
    (place / REVISIONS).mkdir(exist_ok=True)
    write_text(place / REVISIONS / quote(address.revision, safe=""), remote.commit)
    return folder


def _place(address: Address) -> Path:
    """Return the folder of all copies of a run, made if needed."""
    cache = cache_folder(CACHE)
    if cache is None:
        path, off = cache_path(CACHE), os.environ.get("WEFT_CACHE") == OFF
        what = "the cache is off" if off or path is None else f"the cache {path} is not yours alone to write to"
        cure = f"weft pull {address.repository} --out DIR, and use DIR; or name a folder in WEFT_CACHE"
        raise RunError(f"cannot be kept: {what}", where=str(address), cure=cure)
    place = cache / f"{address.owner}--{address.name}"
    place.mkdir(exist_ok=True)
    return place


def _is_whole(folder: Path) -> bool:
    """Return whether a copy is there: a folder gets the name of its commit when all of it is checked."""
    return (folder / MANIFEST).is_file()


def _last_commit(place: Path, address: Address) -> str | None:
    try:
        content = read_regular(place / REVISIONS / quote(address.revision, safe=""), most=COMMIT_CHARACTERS)
    except OSError:
        return None
    commit = content.decode("ascii", "replace")
    return commit if _COMMIT.fullmatch(commit) and _is_whole(place / commit) else None


@contextmanager
def _alone(place: Path) -> Iterator[None]:
    """Let one process at a time download a run; the others find its copy afterwards. Only POSIX has such locks."""
    if os.name != "posix":
        yield
        return
    import fcntl

    opened = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)


def _say(template: str, *values: object) -> None:
    """Print a line to standard error; answers go to standard output."""
    SafeConsole(stderr=True).print(styled(template, *values), soft_wrap=True)
