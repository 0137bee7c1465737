"""Ways to make a run folder hostile. Each gives a function of the folder; the manifest then fits what was changed."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import stat
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

Change = Callable[[Path], None]
TERABYTE = 1 << 40
FILES = ("manifest.json", "config.json", "model.safetensors", "tokenizer.json", "labels.json")


def sign(folder: Path) -> None:
    """Write the hashes of the files as they are into the manifest: whoever changes a folder can do that too."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    for name in manifest["sha256"]:
        if (folder / name).is_file() and (folder / name).stat().st_size < TERABYTE:
            manifest["sha256"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    path.write_text(json.dumps(manifest), encoding="utf-8")


def content(name: str, data: bytes | str, *, signed: bool = True) -> Change:
    """The whole content of a file."""

    def change(folder: Path) -> None:
        (folder / name).write_bytes(data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass"))
        if signed and name != "manifest.json":
            sign((folder / name).parent)

    return change


def rewrite(name: str, write: Callable[[bytes], bytes], *, signed: bool = True) -> Change:
    """The content of a file, made from what it was."""
    return lambda folder: content(name, write((folder / name).read_bytes()), signed=signed)(folder)


def edit(name: str, alter: Callable[[Any], Any], *, signed: bool = True) -> Change:
    """A JSON file, whose value is altered or replaced."""

    def write(data: bytes) -> bytes:
        value = json.loads(data)
        other = alter(value)
        return json.dumps(value if other is None else other).encode("utf-8")

    return rewrite(name, write, signed=signed)


def put(name: str, path: str, value: Any) -> Change:
    """A JSON file with another value at a path such as "model.cell.kind"."""

    def alter(tree: Any) -> None:
        *above, last = path.split(".")
        for part in above:
            tree = tree[int(part)] if isinstance(tree, list) else tree.setdefault(part, {})
        tree[last] = value

    return edit(name, alter)


def drop(name: str, path: str) -> Change:
    """A JSON file without what is at a path."""

    def alter(tree: Any) -> None:
        *above, last = path.split(".")
        for part in above:
            tree = tree[part]
        del tree[last]

    return edit(name, alter)


def inserted(name: str, before: str, text: str) -> Change:
    """A file with something before the first occurrence of a text, such as a key that is there twice."""
    return rewrite(name, lambda data: data.replace(before.encode(), text.encode() + before.encode(), 1))


def removed(name: str) -> Change:
    return lambda folder: (folder / name).unlink()


def all_of(*changes: Change) -> Change:
    def change(folder: Path) -> None:
        for one in changes:
            one(folder)

    return change


def flipped(name: str) -> Change:
    """One bit in the middle, and the manifest as it was: what a broken disk does."""

    def write(data: bytes) -> bytes:
        middle = len(data) // 2
        return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]

    return rewrite(name, write, signed=False)


def fifo(name: str) -> Change:
    return _instead(name, lambda path: os.mkfifo(path))


def directory(name: str) -> Change:
    return _instead(name, lambda path: path.mkdir())


def unix_socket(name: str) -> Change:
    def bind(path: Path) -> None:
        here = Path.cwd()
        os.chdir(path.parent)  # the path of a socket has at most 108 bytes
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
        os.chdir(here)

    return _instead(name, bind)


def device(name: str) -> Change:
    """An endless device; only root can make one."""
    return _instead(name, lambda path: os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5)))


def link(name: str, target: str) -> Change:
    """A link; `target` may have {folder} in it, and {kept}, which is where the file itself goes."""

    def make(path: Path) -> None:
        kept = path.parents[1] / "outside" / path.name
        path.symlink_to(target.format(folder=path.parent, kept=kept))

    def change(folder: Path) -> None:
        path = folder / name
        if "{kept}" in target:
            shutil.move(path, folder.parent / "outside" / path.name)
        _instead(name, make)(folder)

    return change


def sparse(name: str, size: int = TERABYTE) -> Change:
    """A file that grows to this size and takes no room."""

    def change(folder: Path) -> None:
        with (folder / name).open("ab") as file:
            file.truncate(size)

    return change


def _instead(name: str, make: Callable[[Path], None]) -> Change:
    def change(folder: Path) -> None:
        path = folder / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        make(path)

    return change


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


def header_of(data: bytes) -> tuple[dict[str, Any], bytes]:
    """The header and the numbers of a safetensors file."""
    (length,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def safetensors(header: Any, numbers: bytes = b"", *, length: int | None = None) -> bytes:
    """Such a file; a header that is bytes stands there as it is, and `length` may be a lie."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode("utf-8", "surrogatepass")
    return struct.pack("<Q", len(text) if length is None else length) + text + numbers


def tensors(alter: Callable[[dict[str, Any], bytearray], Any], name: str = "model.safetensors") -> Change:
    """A safetensors file, whose header and numbers are altered; a header may be given back instead."""

    def write(data: bytes) -> bytes:
        header, numbers = header_of(data)
        found = bytearray(numbers)
        other = alter(header, found)
        return safetensors(header if other is None else other, bytes(found))

    return rewrite(name, write)
