"""A disk that loses power: the states it may be left in, worked out from the log of a process.

What a system promises is little. Data of a file is on the disk once the file was synced, a name once its folder was; of
anything later all, nothing or a part may be there, in any order. A rename is there as a whole or not at all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from tests.faults.crash.shim import Operation

Tree = dict[str, bytes | None]
"""A state of a disk: the content of every file by its path, None for a folder."""


@dataclass(eq=False)
class File:
    """Data as a process sees it, and as it was when it was last synced."""

    data: bytes = b""
    synced: bytes = b""

    def sync(self) -> None:
        self.synced = self.data


@dataclass(eq=False)
class Folder:
    """Names as a process sees them, as they were when they were last synced, and the changes since, each a whole."""

    names: dict[str, Node] = field(default_factory=dict)
    synced: dict[str, Node] = field(default_factory=dict)
    changes: list[dict[str, Node | None]] = field(default_factory=list)

    def change(self, **names: Node | None) -> None:
        _apply(self.names, names)
        self.changes.append(names)

    def sync(self) -> None:
        self.synced, self.changes = dict(self.names), []


Node = File | Folder


def _apply(names: dict[str, Node], changes: dict[str, Node | None]) -> None:
    for name, node in changes.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


class Loss(NamedTuple):
    """One way to lose power: which changes of names are kept, and what becomes of data that was not synced."""

    name: str
    keep: Callable[[int, int], bool]
    """Of the n-th of so many changes of a folder."""
    data: Callable[[File], bytes]


def _kept(file: File) -> bytes:
    return file.data


def _lost(file: File) -> bytes:
    return file.synced


def _cut(file: File) -> bytes:
    """Half of what was written since; a file that was synced before begins as it was."""
    same = len(file.synced) if file.data.startswith(file.synced) else 0
    return file.data[: same + (len(file.data) - same) // 2]


def _zeros(file: File) -> bytes:
    """The size got there, and the data did not."""
    same = len(file.synced) if file.data.startswith(file.synced) else 0
    return file.data[:same] + bytes(len(file.data) - same)


LOSSES = (
    Loss("nothing lost", lambda number, count: True, _kept),
    Loss("all lost", lambda number, count: False, _lost),
    Loss("data lost", lambda number, count: True, _lost),
    Loss("data cut", lambda number, count: True, _cut),
    Loss("data zero", lambda number, count: True, _zeros),
    Loss("names lost", lambda number, count: False, _kept),
    Loss("later names lost", lambda number, count: number < count // 2, _lost),
    Loss("earlier names lost", lambda number, count: number >= count // 2, _kept),
    Loss("every second name lost", lambda number, count: bool(number % 2), _zeros),
)


class Disk:
    """What is below a folder, which was empty and synced when the log began."""

    def __init__(self, root: Path) -> None:
        self.root, self.top = PurePosixPath(root), Folder()
        self.nodes: dict[int, Node] = {}

    def do(self, done: Operation) -> None:
        """Repeat an operation; one that failed changed nothing."""
        if done.error:
            return
        folder, name = self._place(done.path)
        if done.name in ("create", "open"):
            self._open(done, folder, name)
        elif done.name == "mkdir":
            self.nodes[done.inode] = Folder()
            folder.change(**{name: self.nodes[done.inode]})
        elif done.name == "remove":
            folder.change(**{name: None})
        elif done.name == "rename":
            target, new = self._place(done.to)
            assert target is folder, f"a rename from one folder to another is not modelled: {done}"
            folder.change(**{name: None, new: folder.names[name]})
        elif done.name == "sync":
            self.nodes[done.inode].sync()
        elif done.name != "read":
            self._write(done)

    def _open(self, done: Operation, folder: Folder, name: str) -> None:
        if done.path == str(self.root):
            self.nodes[done.inode] = self.top
            return
        if done.name == "create" and done.place & 1:
            self.nodes[done.inode] = File()
            folder.change(**{name: self.nodes[done.inode]})
        node = self.nodes[done.inode]
        if folder.names.get(name) is not node:  # renamed by a library that does not call libc for it
            before = next(old for old, other in folder.names.items() if other is node)
            folder.change(**{before: None, name: node})
        if isinstance(node, File) and done.name == "create" and done.place & 2:
            node.data = b""

    def _write(self, done: Operation) -> None:
        file = self.nodes[done.inode]
        assert isinstance(file, File)
        if done.name == "write":
            before = file.data[: done.place].ljust(done.place, b"\0")
            file.data = before + done.data + file.data[done.place + len(done.data) :]
        elif done.name == "truncate":
            file.data = file.data[: done.place].ljust(done.place, b"\0")
        else:
            raise AssertionError(f"not modelled: {done}")

    def _place(self, path: str) -> tuple[Folder, str]:
        """The folder that a path ends in, and its last name."""
        *above, name = ("", *PurePosixPath(path).relative_to(self.root).parts)
        folder: Node = self.top
        for part in above[1:]:
            assert isinstance(folder, Folder)
            folder = folder.names[part]
        assert isinstance(folder, Folder)
        return folder, name

    def after(self, loss: Loss) -> Tree:
        """What is found when the power is back."""
        found: Tree = {}
        _collect(self.top, "", loss, found)
        return found


def _collect(folder: Folder, path: str, loss: Loss, found: Tree) -> None:
    names = dict(folder.synced)
    for number, change in enumerate(folder.changes):
        if loss.keep(number, len(folder.changes)):
            _apply(names, change)
    for name, node in names.items():
        if isinstance(node, Folder):
            found[path + name] = None
            _collect(node, f"{path}{name}/", loss, found)
        else:
            found[path + name] = loss.data(node)


class State(NamedTuple):
    """A state of the disk, after which operation, by which loss."""

    last: Operation
    loss: Loss
    tree: Tree


def states(root: Path, operations: Sequence[Operation], *, every: int = 1) -> Iterator[State]:
    """All different states that the disk may be left in at any operation, or by one loss at each n-th."""
    disk, seen = Disk(root), set()
    for number, done in enumerate(operations):
        disk.do(done)
        for loss in LOSSES if every == 1 else (LOSSES[number // every % len(LOSSES)],) if number % every == 0 else ():
            tree = disk.after(loss)
            mark = hashlib.sha256(repr(sorted(tree.items())).encode()).digest()
            if mark not in seen:
                seen.add(mark)
                yield State(done, loss, tree)


def write_tree(tree: Tree, folder: Path) -> None:
    """Make a state real."""
    for name, content in sorted(tree.items()):
        if content is None:
            (folder / name).mkdir()
        else:
            (folder / name).write_bytes(content)
