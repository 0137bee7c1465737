"""The caches of tokens and of compiled libraries: whatever is in them, the result is that of an empty one."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
from tests.faults.hostile.change import Change, directory, fifo, link, nested
from tests.faults.hostile.row import AS_BEFORE, Row


def _every(pattern: str, change: Callable[[str], Change]) -> Change:
    """The change on each file of the cache that fits."""

    def all_files(folder: Path) -> None:
        found = [str(path.relative_to(folder)) for path in folder.glob(pattern)]
        assert found, f"no {pattern} in the cache"
        for name in found:
            change(name)(folder)

    return all_files


def _written(write: Callable[[bytes], bytes], *, signed: bool = False) -> Callable[[str], Change]:
    """Other content, and with `signed` an entry that fits it."""

    def make(name: str) -> Change:
        def change(folder: Path) -> None:
            path = folder / name
            path.chmod(0o600)
            path.write_bytes(write(path.read_bytes()))
            if signed:
                _sign(path)

        return change

    return make


def _sign(path: Path) -> None:
    """Bring the list of an entry up to date, in whichever way it notes sizes and checksums."""
    listed = json.loads((path.parent / "entry.json").read_text(encoding="utf-8"))
    if path.name in listed:
        size, checksum = path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest()
        listed[path.name] = [size, checksum if listed[path.name][1] is not None else None]
        (path.parent / "entry.json").write_text(json.dumps(listed), encoding="utf-8")


def _flip(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def _half(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _objects(data: bytes) -> bytes:
    """An array of Python objects, which only a pickle can hold."""
    file = io.BytesIO()
    np.save(file, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    return file.getvalue()


def _garbage(data: bytes) -> bytes:
    return b"hello"


def _empty(data: bytes) -> bytes:
    return b""


def _deep(data: bytes) -> bytes:
    return nested(100_000).encode()


def _no_folder(folder: Path) -> None:
    shutil.rmtree(folder / "compiled")
    (folder / "compiled").touch()


def _tokens(name: str, change: Change) -> Row:
    return Row("token cache", name, change, AS_BEFORE, "train with kept tokens", "tokens")


def _library(name: str, change: Change) -> Row:
    return Row("compile cache", name, change, AS_BEFORE, "predict with this cache", "compiled")


ENTRY = "tokens/*/entry.json"
ROWS = [
    _tokens("as it is", lambda folder: None),
    _tokens("one bit of the tokens", _every("tokens/*/*.values", _written(_flip))),
    _tokens("tokens cut in half", _every("tokens/*/*.values", _written(_half))),
    _tokens("all tokens zero", _every("tokens/*/*.values", _written(lambda data: bytes(len(data))))),
    _tokens("one bit of a list", _every(ENTRY, _written(_flip))),
    _tokens("lists that are no JSON", _every(ENTRY, _written(_garbage))),
    _tokens("empty lists", _every(ENTRY, _written(lambda data: b"{}"))),
    _tokens("lists nested a hundred thousand times", _every(ENTRY, _written(_deep))),
    _tokens("one bit of what is known of the data", _every("tokens/*/training.json", _written(_flip))),
    _tokens("what is known of the data is no JSON", _every("tokens/*/training.json", _written(_garbage, signed=True))),
    _tokens("a pickle in an array", _every("tokens/*/keys*", _written(_objects, signed=True))),
    _tokens("lists that are pipes", _every(ENTRY, fifo)),
    _tokens("lists that are links to /dev/zero", _every(ENTRY, lambda name: link(name, "/dev/zero"))),
    _tokens("tokens that are pipes", _every("tokens/*/*.values", fifo)),
    _tokens("tokens that are folders", _every("tokens/*/*.values", directory)),
    _tokens("names of files that are no JSON", _every("tokens/files/*.json", _written(_garbage))),
    _tokens("names of files nested a hundred thousand times", _every("tokens/files/*.json", _written(_deep))),
    _tokens("names of files that are pipes", _every("tokens/files/*.json", fifo)),
    _library("as it is", lambda folder: None),
    _library("empty libraries", _every("compiled/*.so", _written(_empty))),
    _library("libraries cut in half", _every("compiled/*.so", _written(_half))),
    _library("libraries cut in the header", _every("compiled/*.so", _written(lambda data: data[:100]))),
    _library("one bit of a library", _every("compiled/*.so", _written(_flip))),
    _library("libraries of zeros", _every("compiled/*.so", _written(lambda data: bytes(len(data))))),
    _library("libraries that are pipes", _every("compiled/*.so", fifo)),
    _library("libraries that are folders", _every("compiled/*.so", directory)),
    _library("libraries that are links to /dev/zero", _every("compiled/*.so", lambda name: link(name, "/dev/zero"))),
    _library("a folder that others can write", lambda folder: (folder / "compiled").chmod(0o777)),
    _library("a file for the folder", _no_folder),
]
