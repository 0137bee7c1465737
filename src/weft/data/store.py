"""A store of entries on disk, each a folder of files under a key, complete or absent.

An entry is written under another name, synced and renamed, so that processes that start together, are killed or run
out of disk never see an incomplete one. A list of its files with sizes and checksums is checked whenever it is opened;
an entry that does not match its list, or cannot be read, is removed and made anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from weft.disk import atomic_write, open_regular, read_regular, sync
from weft.documents import parse_json, to_json
from weft.errors import WeftError
from weft.limits import SMALL_FILE_BYTES, TOKEN_CACHE_FILE_BYTES

FORMAT = 5
"""The version of the content of entries; it is part of the keys, so entries of older versions are not found."""

MAX_STORE_BYTES = 20 * 10**9
"""Bytes of all entries together; beyond them the least recently used entries are removed."""

VALUES = ".values"
"""Files with this suffix may have gigabytes. Their checksum is CRC-32, a quarter of a second per gigabyte: it detects
damage; a forger could change the list as well."""

UNREADABLE = (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, MemoryError, WeftError)
"""The errors of reading a damaged entry."""

ABANDONED_SECONDS = 24 * 3600
"""An unfinished entry of this age is removed: its process was killed."""

_LIST, _UNFINISHED = "entry.json", ".new-"
_BLOCK_BYTES = 1 << 20

Read = TypeVar("Read")


def key_of(*parts: Any) -> str:
    """Return the key of an entry: a hash of all that it depends on, given as plain JSON values."""
    text = json.dumps([FORMAT, *parts], sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:40]


class Store:
    """The entries in a folder, at most `most` bytes of them."""

    def __init__(self, folder: Path, *, most: int = MAX_STORE_BYTES) -> None:
        self.folder, self.most = folder, most
        self._fresh: set[str] | None = None

    def renew(self) -> None:
        """Ignore and remove all entries that were made before this call."""
        self._fresh = set()

    def find(self, key: str) -> Path | None:
        """Return the folder of an entry, and mark it as used now; None if it is missing or damaged."""
        entry = self.folder / key
        outdated = self._fresh is not None and key not in self._fresh
        if outdated or not _agrees(entry):
            _remove(entry)
            return None
        with suppress(OSError):
            os.utime(entry / _LIST)
        return entry

    def use(self, key: str, read: Callable[[Path], Read]) -> Read | None:
        """Return `read(folder)` of an entry; None if it is missing or cannot be read, which removes it."""
        entry = self.find(key)
        if entry is None:
            return None
        try:
            return read(entry)
        except UNREADABLE:
            _remove(entry)
            return None

    @contextmanager
    def make(self, key: str) -> Iterator[Path]:
        """Yield a folder to write files into, which becomes the entry unless the block raises.

        If another process was faster, its entry stays. Columns that are open keep their files either way.
        """
        self._tidy()
        fresh = Path(tempfile.mkdtemp(dir=self.folder, prefix=_UNFINISHED))
        try:
            yield fresh
            listed = {file.name: _describe(file) for file in sorted(fresh.iterdir())}
            atomic_write(fresh / _LIST, to_json(listed).encode())
            with suppress(OSError):  # it exists already
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
        """Remove the least recently used entries until the rest is within the limit; `keep` always stays."""
        sized = [(entry, _size(entry)) for entry in sorted(self._entries(), key=_used)]
        total = sum(size for _, size in sized)
        for entry, size in sized:
            if total > self.most and entry.name != keep:
                shutil.rmtree(entry, ignore_errors=True)
                total -= size

    def _tidy(self) -> None:
        """Remove unfinished entries of killed processes."""
        for folder in self.folder.glob(f"{_UNFINISHED}*"):
            with suppress(OSError):
                if max(file.stat().st_mtime for file in (folder, *folder.iterdir())) < time.time() - ABANDONED_SECONDS:
                    shutil.rmtree(folder, ignore_errors=True)


def read_values(path: Path) -> Any:
    """Read a JSON file of an entry."""
    return parse_json(read_regular(path, most=TOKEN_CACHE_FILE_BYTES))


def read_numbers(path: Path, dtype: type[np.generic]) -> NDArray[Any]:
    """Read the numbers (N,) of a file written by `tofile`, which has no header that would need to be checked."""
    with open_regular(path) as file:
        numbers: NDArray[Any] = np.fromfile(file, dtype=dtype)
        if numbers.nbytes != os.fstat(file.fileno()).st_size:
            raise ValueError("a number has been cut off")
    return numbers


def _describe(file: Path) -> list[Any]:
    sync(file)
    with open_regular(file) as stream:
        return [os.fstat(stream.fileno()).st_size, _checksum(stream, file.suffix)]


def _checksum(stream: BufferedReader, suffix: str) -> str:
    if suffix != VALUES:
        return hashlib.file_digest(stream, "sha256").hexdigest()
    found, block = 0, memoryview(bytearray(_BLOCK_BYTES))
    while count := stream.readinto(block):
        found = zlib.crc32(block[:count], found)
    return f"{found:08x}"


def _agrees(entry: Path) -> bool:
    """Whether exactly the files of the list exist, with their sizes and checksums."""
    try:
        if entry.is_symlink():
            return False
        listed = parse_json(read_regular(entry / _LIST, most=SMALL_FILE_BYTES))
        if {file.name for file in entry.iterdir()} != {*listed, _LIST}:
            return False
        for name, about in listed.items():
            size, checksum = about
            with open_regular(entry / name) as stream:
                if os.fstat(stream.fileno()).st_size != size or _checksum(stream, Path(name).suffix) != checksum:
                    return False
    except UNREADABLE:
        return False
    return True


def _remove(entry: Path) -> None:
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry, ignore_errors=True)
    else:
        with suppress(OSError):
            entry.unlink(missing_ok=True)


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
