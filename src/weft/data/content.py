"""What files hold, as a short name for it.

Reading two gigabytes to name them takes seconds, so the name is remembered beside the path, size, inode and time of the
last change, and a file in which all of these are the same is not read again. A program that changes a file and sets its
time back deceives this; `forget` is the cure, and WEFT_CACHE=off reads everything anew.
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
from weft.limits import SMALL_FILE

SETTLED = 2.0
"""Seconds since the last change after which the next one surely has another time, on every file system."""


REMEMBERED = 100
"""Files of one data set of which each is remembered."""


class Stamp(NamedTuple):
    """What can be known of a file without reading it."""

    path: str
    name: str
    """What of the name matters to readers: the endings, or in a folder all of it."""
    size: int
    inode: int
    changed: int


def stamps(path: Paths) -> list[Stamp] | None:
    """Of every file that `path` means, in a folder and in the folders inside it; None where one cannot be looked at."""
    found: list[Stamp] = []
    try:
        for name in each_path(path):
            if name == STDIN:
                return None
            top = Path(name).absolute()
            folder = top.is_dir()
            inside = chain(top.glob("*"), top.glob("*/*"))  # readers look no deeper
            for file in sorted(one for one in inside if not one.is_dir()) if folder else [top]:
                info = file.stat()
                matters = str(file.relative_to(top)) if folder else "".join(file.suffixes[-2:]).lower()
                found.append(Stamp(str(file), matters, info.st_size, info.st_ino, info.st_mtime_ns))
    except OSError:
        return None
    return found


def identify(files: list[Stamp], memory: Path) -> str | None:
    """A name for the bytes of these files, and for the endings by which they are read; None if they cannot be read.

    `memory` is the folder where names of single files are remembered.
    """
    try:
        # A folder of many small texts is read sooner than as many notes are written.
        identify_one = _identify if len(files) <= REMEMBERED else _read
        parts = [(file.name, identify_one(file, memory)) for file in files]
    except OSError:
        return None
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def forget(files: list[Stamp], memory: Path) -> None:
    """Let `identify` read these files again, whatever can be known of them without reading."""
    for file in files:
        _note(file, memory).unlink(missing_ok=True)


def _note(file: Stamp, memory: Path) -> Path:
    return memory / f"{hashlib.sha256(file.path.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}.json"


def _identify(file: Stamp, memory: Path) -> str:
    note = _note(file, memory)
    try:
        known = parse_json(read_regular(note, most=SMALL_FILE))
        if known["stamp"] == list(file):
            return str(known["content"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # not remembered, or damaged
    settled = time.time() - file.changed / 1e9 > SETTLED
    content = _read(file, memory)
    if settled:
        atomic_write(note, json.dumps({"stamp": file, "content": content}).encode())
    return content


def _read(file: Stamp, _: Path) -> str:
    with Path(file.path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
