"""Checkpoints on disk: `checkpoints/STEP/`, each a folder that is there as a whole or not at all.

A checkpoint is filled under a temporary name, every file and the folder are brought to the disk, and only then does it
get its name. The one before stays beside it, for the case that a disk gives back something else than was written.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from weft.disk import sync
from weft.documents import NewerFormat
from weft.errors import RunError
from weft.run.claiming import CHECKPOINTS
from weft.run.files import writing
from weft.run.manifest import hash_file, read_run, verify, write_manifest
from weft.run.weights import check_sizes

NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,17}")
"""The name of a checkpoint: the update after which it was written."""

KEPT = 2
"""Checkpoints that stay while training goes on."""


class Found(NamedTuple):
    """The newest whole checkpoint, if there is any, and what a person should know about others."""

    path: Path | None
    notes: tuple[str, ...] = ()


class Checkpoints:
    """The checkpoints of one run folder."""

    def __init__(self, run: Path) -> None:
        self.run, self.folder = run, run / CHECKPOINTS

    def save(self, step: int, fill: Callable[[Path], Mapping[str, str] | None]) -> None:
        """Have `fill` write files into an empty folder, and make it the checkpoint of that update.

        It may return hashes of files, which then need not be read again.
        """
        path, temporary = self.folder / str(step), self.folder / f".{step}.tmp"
        kept = self.steps()
        cure = f"checkpoint {kept[-1]} is whole: make room, then go on with --resume" if kept else "make room"
        try:
            with writing(path, cure=cure):
                remove(temporary)
                self.folder.mkdir(exist_ok=True)  # a run folder that is gone is not made again
                temporary.mkdir()
                hashes = fill(temporary) or {}
                files = sorted(temporary.iterdir())
                write_manifest(temporary, {file.name: hashes.get(file.name) or hash_file(file) for file in files})
                for file in (*files, temporary):
                    sync(file)
                if os.path.lexists(path):  # damaged, or training would not have gone back to before it
                    discard(path)
                sync(self.run)  # the names of this folder and of the journal, on which the checkpoint counts
                temporary.replace(path)
                sync(self.folder)
                self.keep(KEPT)
        finally:
            remove(temporary)

    def newest(self) -> Found:
        """The newest checkpoint whose files are what was written; an error if all of several are damaged."""
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
            return Found(path, tuple(notes))
        if notes:
            raise RunError(
                f"no checkpoint is whole: {notes[0]}", where=str(self.run), cure="train again in another folder"
            )
        return Found(None)

    def steps(self) -> list[int]:
        """The updates that there are checkpoints of."""
        return [step for step, path in self._entries() if not path.is_symlink()]

    def check(self) -> None:
        """Raise where the checkpoints are not in a folder inside the run's own: what is there may be removed."""
        if self.folder.is_symlink():
            cure = "put the folder itself there"
            raise RunError("is a link, which is never followed", where=str(self.folder), cure=cure)
        if self.folder.exists() and not self.folder.is_dir():
            raise RunError("is a file, not a folder", where=str(self.folder), cure="move it away")

    def keep(self, number: int) -> None:
        """Remove all but the newest."""
        for step in self.steps()[:-number]:
            discard(self.folder / str(step))

    def clean(self) -> None:
        """Remove what a process that was killed left half-written or half-removed."""
        self.check()
        for path in self.folder.glob(".*.tmp"):
            remove(path)

    def _entries(self) -> list[tuple[int, Path]]:
        """Folders and links whose names are numbers as weft writes them; whatever else is there does not count."""
        paths = [path for path in self.folder.glob("*") if NUMBER.fullmatch(path.name) and path.is_dir()]
        return sorted((int(path.name), path) for path in paths)


def discard(path: Path) -> None:
    """Remove a folder; killed in the middle of it, what is left has no name that counts."""
    doomed = path.with_name(f".{path.name}.{os.getpid()}.old.tmp")
    path.replace(doomed)
    remove(doomed)


def remove(path: Path) -> None:
    """Remove a folder with all that is in it, or a file or a link, if it is there and as far as the system allows."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()
