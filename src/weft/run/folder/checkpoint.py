"""Checkpoints on disk: `checkpoints/STEP/`, each a folder that is complete or absent.

A checkpoint is filled under a temporary name, every file and the folder are synced, and only then it is renamed. The
checkpoint before it is kept, in case the disk returns something else than was written.

Beside weights a checkpoint holds a tree of plain values and tensors, in a JSON file and a safetensors file. In the JSON
a tensor is `{"$tensor": its name in the other file}`, a tuple is `{"$tuple": [...]}`, and a number that is not finite
`{"$number": "nan"}`. Both files are read as the manifest of the checkpoint lists them.
"""

from __future__ import annotations

import math
import os
import re
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from torch import Tensor

from weft.disk import sync
from weft.documents import NewerFormat, to_json
from weft.errors import RunError
from weft.run.folder.files import CHECKPOINTS, shorten, writing
from weft.run.folder.manifest import RunFiles, hash_file, read_run, verify, write_manifest
from weft.run.folder.weights import check_sizes, open_tensors, write_tensors
from weft.tasks import Tree

CHECKPOINT_NAME: Final = re.compile(r"0|[1-9][0-9]{0,17}")
"""The name of a checkpoint: the update after which it was written."""

MAX_CHECKPOINTS = 2
"""Checkpoints that are kept while training runs."""

STATE, STATE_TENSORS = "state.json", "state.safetensors"
TENSOR, TUPLE, NUMBER = "$tensor", "$tuple", "$number"


class NewestCheckpoint(NamedTuple):
    """The newest whole checkpoint, None if there is none, and notes on damaged ones."""

    path: Path | None
    notes: tuple[str, ...] = ()


class Checkpoints:
    """The checkpoints of one run folder."""

    def __init__(self, run: Path) -> None:
        self.run, self.folder = run, run / CHECKPOINTS

    def save(self, step: int, fill: Callable[[Path], Mapping[str, str] | None]) -> None:
        """Have `fill` write files into an empty folder, and make it the checkpoint of that update.

        `fill` may return hashes of files, which then are not read again.
        """
        path, temporary = self.folder / str(step), self.folder / f".{step}.tmp"
        steps = self.steps()
        cure = f"checkpoint {steps[-1]} is whole: make room, then go on with --resume" if steps else "make room"
        try:
            with writing(path, cure=cure):
                remove(temporary)
                self.folder.mkdir(exist_ok=True)  # without parents: a run folder that is gone is not made again
                temporary.mkdir()
                hashes = fill(temporary) or {}
                files = sorted(temporary.iterdir())
                write_manifest(temporary, {file.name: hashes.get(file.name) or hash_file(file) for file in files})
                for file in (*files, temporary):
                    sync(file)
                if os.path.lexists(path):  # damaged, or training would not have resumed before it
                    discard(path)
                sync(self.run)  # the names of this folder and of the journal, which the checkpoint relies on
                temporary.replace(path)
                sync(self.folder)
                self.keep(MAX_CHECKPOINTS)
        finally:
            remove(temporary)

    def newest(self) -> NewestCheckpoint:
        """Return the newest checkpoint whose files have their hashes; raise if there are some and all are damaged."""
        self.check()
        notes: list[str] = []
        for step, path in reversed(self._entries()):
            try:
                if path.is_symlink():
                    raise RunError("is a link, which is never followed", where=str(path))
                read_run(path, check_sizes)
                verify(path)
            except NewerFormat:
                raise
            except RunError as error:
                notes.append(f"checkpoint {step} is left out: {error.where} {error.what}")
                continue
            return NewestCheckpoint(path, tuple(notes))
        if notes:
            raise RunError(
                f"no checkpoint is whole: {notes[0]}", where=str(self.run), cure="train again in another folder"
            )
        return NewestCheckpoint(None)

    def steps(self) -> list[int]:
        """Return the updates that have checkpoints, in order."""
        return [step for step, path in self._entries() if not path.is_symlink()]

    def check(self) -> None:
        """Raise unless the checkpoints are in a real folder inside the run folder: files in it may be removed."""
        if self.folder.is_symlink():
            cure = "put the folder itself there"
            raise RunError("is a link, which is never followed", where=str(self.folder), cure=cure)
        if self.folder.exists() and not self.folder.is_dir():
            raise RunError("is a file, not a folder", where=str(self.folder), cure="move it away")

    def keep(self, number: int) -> None:
        """Remove all but the newest `number` checkpoints."""
        for step in self.steps()[:-number]:
            discard(self.folder / str(step))

    def clean(self) -> None:
        """Remove folders that a killed process left half-written or half-removed."""
        self.check()
        for path in self.folder.glob(".*.tmp"):
            remove(path)

    def _entries(self) -> list[tuple[int, Path]]:
        """Return the folders and links whose names are numbers as weft writes them."""
        paths = [path for path in self.folder.glob("*") if CHECKPOINT_NAME.fullmatch(path.name) and path.is_dir()]
        return sorted((int(path.name), path) for path in paths)


def discard(path: Path) -> None:
    """Remove a folder; it is renamed first, so that a kill leaves no half of a checkpoint."""
    doomed = path.with_name(f".{path.name}.{os.getpid()}.old.tmp")
    path.replace(doomed)
    remove(doomed)


def remove(path: Path) -> None:
    """Remove a folder with its content, or a file or a link, if it exists and as far as the system allows."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def write_state(folder: Path, state: Tree) -> dict[str, str]:
    """Write a tree whose tensors are in CPU memory; return the SHA-256 of the large file, by its name."""
    tensors: dict[str, Tensor] = {}
    text = to_json(_pack(state, "", tensors), indent=2)
    (folder / STATE).write_text(text + "\n", encoding="utf-8")
    return {STATE_TENSORS: write_tensors(folder / STATE_TENSORS, tensors)}


def read_state(folder: Path) -> Tree:
    """Read the whole tree of a checkpoint. A `RunError` says what is wrong with the files."""

    def read(files: RunFiles) -> Tree:
        plain = _read_plain(files)
        with open_tensors(files, STATE_TENSORS) as stored:
            try:
                tensors = {name: stored.read(name) for name in stored.entries}
                found: Tree = _unpack(plain, tensors)
                if tensors:
                    raise ValueError(f"nothing names the tensor {min(tensors)}")
            except (KeyError, TypeError, ValueError) as error:
                raise RunError(f"is damaged: {shorten(str(error))}", where=str(folder / STATE)) from None
        return found

    return read_run(folder, read)


def read_plain(folder: Path) -> Tree:
    """Read the plain values alone; a tensor is represented by its name."""
    return read_run(folder, _read_plain)


def _read_plain(files: RunFiles) -> Tree:
    found = files.read_json(STATE, constants=True)  # older checkpoints have NaN and Infinity instead of `$number`
    if not isinstance(found, dict):
        raise RunError("is not a table", where=str(files.folder / STATE))
    return found


def _pack(value: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, Tensor):
        tensors[path] = value
        return {TENSOR: path}
    if isinstance(value, Mapping):
        return {str(key): _pack(item, f"{path}/{key}" if path else str(key), tensors) for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = [_pack(item, f"{path}/{number}", tensors) for number, item in enumerate(value)]
        return items if isinstance(value, list) else {TUPLE: items}
    if isinstance(value, float) and not math.isfinite(value):
        return {NUMBER: str(value)}
    return value


def _unpack(value: Any, tensors: dict[str, Tensor]) -> Any:
    """Return the value with its tensors, each removed from `tensors`: no two parts may share one."""
    if isinstance(value, dict):
        if TENSOR in value:
            return tensors.pop(value[TENSOR])
        if NUMBER in value:
            return float(value[NUMBER])
        if TUPLE in value:
            return tuple(_unpack(item, tensors) for item in value[TUPLE])
        return {key: _unpack(item, tensors) for key, item in value.items()}
    return [_unpack(item, tensors) for item in value] if isinstance(value, list) else value
