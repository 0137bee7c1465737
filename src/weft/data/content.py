"""Hashes of the content of files, cached by what is known of a file without reading it.

Hashing two gigabytes takes seconds, so the hash is stored with the path, size, inode and time of the last change, and a
file in which all of these are the same is not read again. A program that changes a file and resets its time defeats
this; `forget` drops the stored hash, and WEFT_CACHE=off reads everything anew.
"""

from __future__ import annotations

import hashlib
import json
import time
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from weft.data.sources import STDIN, Paths, each_path
from weft.disk import atomic_write, read_regular
from weft.documents import parse_json
from weft.limits import SMALL_FILE_BYTES

SETTLED_SECONDS = 2.0
"""Time since the last change after which another change has another time stamp, on every file system."""

MAX_CACHED_HASHES = 100
"""The hashes of single files are stored for data sets of at most this many files."""


class Stamp(NamedTuple):
    """The facts about a file that are known without reading it."""

    path: str
    name: str
    """The part of the name that decides how it is read: the suffixes, or the path inside a folder."""
    size: int
    inode: int
    changed: int


def stamps(path: Paths) -> list[Stamp] | None:
    """Return the stamp of every file of `path`, in folders two levels deep; None if one cannot be read."""
    found: list[Stamp] = []
    try:
        for name in each_path(path):
            if name == STDIN:
                return None
            top = Path(name).absolute()
            folder = top.is_dir()
            inside = chain(top.glob("*"), top.glob("*/*"))  # readers go no deeper
            for file in sorted(one for one in inside if not one.is_dir()) if folder else [top]:
                info = file.stat()
                matters = str(file.relative_to(top)) if folder else "".join(file.suffixes[-2:]).lower()
                found.append(Stamp(str(file), matters, info.st_size, info.st_ino, info.st_mtime_ns))
    except OSError:
        return None
    return found


def identify(files: list[Stamp], memory: Path) -> str | None:
    """Return a hash of the content and suffixes of these files; None if they cannot be read.

    `memory` is the folder that stores the hashes of single files.
    """
    try:
        # Reading many small texts is faster than writing as many stored hashes.
        identify_one = _identify if len(files) <= MAX_CACHED_HASHES else _read
        parts = [(file.name, identify_one(file, memory)) for file in files]
    except OSError:
        return None
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def forget(files: list[Stamp], memory: Path) -> None:
    """Drop the stored hashes of these files, so that `identify` reads them again."""
    for file in files:
        _note(file, memory).unlink(missing_ok=True)


def _note(file: Stamp, memory: Path) -> Path:
    return memory / f"{hashlib.sha256(file.path.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}.json"


def _identify(file: Stamp, memory: Path) -> str:
    note = _note(file, memory)
    try:
        known = parse_json(read_regular(note, most=SMALL_FILE_BYTES))
        if known["stamp"] == list(file):
            return str(known["content"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # not stored, or damaged
    settled = time.time() - file.changed / 1e9 > SETTLED_SECONDS
    content = _read(file, memory)
    if settled:
        atomic_write(note, json.dumps({"stamp": file, "content": content}).encode())
    return content


def _read(file: Stamp, _: Path) -> str:
    with Path(file.path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
