"""The library that counts, logs and breaks file operations (operations.c): built, given its orders, its log read."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from enum import IntEnum, IntFlag
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).with_name("operations.c")


class Kind(IntFlag):
    """Kinds of operations; as in operations.c."""

    CREATE, OPEN, READ, WRITE, SYNC, NAME, REMOVE = (1 << bit for bit in range(7))
    CHANGES = CREATE | WRITE | SYNC | NAME | REMOVE
    """All that may leave another state on the disk."""
    ALL = CHANGES | OPEN | READ


class Action(IntEnum):
    """What happens at the operation of the given number; as in operations.c."""

    WATCH, KILL, KILL_HALFWAY, FAIL, FAIL_FROM_HERE = range(5)


class Orders(NamedTuple):
    """What is to happen, and at which operation among those of some kinds, counted from 1."""

    action: int = Action.WATCH
    at: int = 0
    error: int = 0
    kinds: int = Kind.CHANGES


class Operation(NamedTuple):
    """An operation as the log has it. `number` is 0 where it was not counted."""

    number: int
    name: str
    kind: Kind
    inode: int
    result: int
    error: int
    place: int
    """Where it begins in the file; of "create": 1 for a new file, 2 for one that is emptied."""
    path: str
    to: str
    data: bytes = b""

    def __str__(self) -> str:
        target = f" -> {self.to}" if self.to else ""
        reason = f" ({errno.errorcode[self.error]})" if self.error else ""
        return f"operation {self.number}, {self.name} {self.path}{target}{reason}"


def build(folder: Path) -> Path:
    """Compile the library; without Linux or a compiler the test is skipped."""
    if sys.platform != "linux":
        pytest.skip("the dynamic linker of this system cannot put a library before libc")
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    library = folder / "operations.so"
    flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-nonnull-compare", "-Wno-address"]
    subprocess.run([compiler, *flags, "-o", library, SOURCE, "-ldl", "-lpthread"], check=True)
    return library


def arm(root: str, log: str, orders: list[int]) -> None:
    """Give this process, which was started with the library, its orders."""
    action, at, error, kinds = orders
    loaded = ctypes.CDLL(None)
    loaded.fault_arm.argtypes = [ctypes.c_char_p, ctypes.c_char_p] + [ctypes.c_int] * 2 + [ctypes.c_long, ctypes.c_int]
    loaded.fault_arm(os.fsencode(root), os.fsencode(log), kinds, action, at, error)


def read_log(path: Path) -> Iterator[Operation]:
    """The operations of a process, in their order; of one that was killed, those before."""
    with path.open("rb") as file:
        while line := file.readline():
            number, name, kind, inode, result, error, place, length, source, to = os.fsdecode(line[:-1]).split("\t")
            numbers = (int(inode), int(result), int(error), int(place))
            yield Operation(int(number), name, Kind(int(kind)), *numbers, source, to, file.read(int(length)))
