"""Entries on disk, each a folder of files under a key: there as a whole, or not at all.

An entry is written under another name, synced and renamed, so that processes that start together, are killed or run
out of disk never see half of one. A list of its files with sizes and checksums is checked whenever it is opened; an
entry that does not agree with it is removed and made anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from weft.disk import sync, write_whole

FORMAT = 3
"""Rises when what is in an entry, or how it is made, changes: what older versions kept is then never found."""

MOST = 20 * 10**9
"""Bytes of all entries together; beyond them the ones that were not used for longest are removed."""

VALUES = ".values"
"""Files with this ending are too large to be read when an entry is opened; only their size is checked."""

ABANDONED = 24 * 3600
"""Seconds after which an unfinished entry belongs to nobody."""

_LIST, _UNFINISHED = "entry.json", ".new-"


def key_of(*parts: Any) -> str:
    """A name for all that an entry depends on, given as plain JSON values."""
    text = json.dumps([FORMAT, *parts], sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:40]


class Store:
    """The entries below a folder."""

    def __init__(self, folder: Path, *, most: int = MOST) -> None:
        self.folder, self.most = folder, most
        self._fresh: set[str] | None = None

    def renew(self) -> None:
        """From here on only what is made from here on is found, and what was there before is made anew."""
        self._fresh = set()

    def find(self, key: str) -> Path | None:
        """The folder of an entry that is complete; it counts as used now."""
        entry = self.folder / key
        if not entry.is_dir():
            return None
        outdated = self._fresh is not None and key not in self._fresh
        if outdated or not _agrees(entry):
            shutil.rmtree(entry, ignore_errors=True)
            return None
        with suppress(OSError):
            os.utime(entry / _LIST)
        return entry

    @contextmanager
    def make(self, key: str) -> Iterator[Path]:
        """A folder to write files into, which becomes the entry unless an error leaves the block.

        Where another process was faster, its entry stays. Columns that are open keep their files either way.
        """
        self._tidy()
        fresh = Path(tempfile.mkdtemp(dir=self.folder, prefix=_UNFINISHED))
        try:
            yield fresh
            listed = {file.name: _describe(file) for file in sorted(fresh.iterdir())}
            write_whole(fresh / _LIST, json.dumps(listed))
            sync(fresh)
            with suppress(OSError):  # it is there already
                fresh.rename(self.folder / key)
                sync(self.folder)
            if self._fresh is not None:
                self._fresh.add(key)
            self._shrink(keep=key)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)

    def __len__(self) -> int:
        return len(self._entries())

    def size(self) -> int:
        """Bytes of all entries."""
        return sum(_size(entry) for entry in self._entries())

    def _entries(self) -> list[Path]:
        return [entry for entry in self.folder.iterdir() if (entry / _LIST).is_file()]

    def _shrink(self, *, keep: str) -> None:
        """Remove what was not used for longest until the rest is within the limit; `keep` always stays."""
        sized = [(entry, _size(entry)) for entry in sorted(self._entries(), key=_used)]
        total = sum(size for _, size in sized)
        for entry, size in sized:
            if total > self.most and entry.name != keep:
                shutil.rmtree(entry, ignore_errors=True)
                total -= size

    def _tidy(self) -> None:
        """Remove what killed processes left unfinished."""
        for folder in self.folder.glob(f"{_UNFINISHED}*"):
            with suppress(OSError):
                if max(file.stat().st_mtime for file in (folder, *folder.iterdir())) < time.time() - ABANDONED:
                    shutil.rmtree(folder, ignore_errors=True)


def _describe(file: Path) -> list[Any]:
    sync(file)
    return [file.stat().st_size, _checksum(file)]


def _checksum(file: Path) -> str | None:
    if file.suffix == VALUES:
        return None
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _agrees(entry: Path) -> bool:
    """Every file of the list is there, with its size and checksum."""
    try:
        listed = json.loads((entry / _LIST).read_text(encoding="utf-8"))
        return all(
            (entry / name).stat().st_size == size and _checksum(entry / name) == checksum
            for name, (size, checksum) in listed.items()
        )
    except (OSError, ValueError, AttributeError, TypeError):
        return False


def _size(entry: Path) -> int:
    try:
        return sum(file.stat().st_size for file in entry.iterdir())
    except OSError:  # removed by another process
        return 0


def _used(entry: Path) -> float:
    try:
        return (entry / _LIST).stat().st_mtime
    except OSError:
        return 0.0
