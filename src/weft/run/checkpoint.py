"""Checkpoints on disk: `checkpoints/STEP/`, each a folder that is there as a whole or not at all.

A checkpoint is filled under a temporary name, every file and the folder are brought to the disk, and only then does it
get its name. The one before stays beside it, for the case that a disk gives back something else than was written.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from weft.disk import sync
from weft.errors import RunError
from weft.run.claiming import CHECKPOINTS
from weft.run.files import writing
from weft.run.manifest import hash_file, verify, write_manifest

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

    def save(self, step: int, fill: Callable[[Path], None]) -> None:
        """Have `fill` write files into an empty folder, and make it the checkpoint of that update."""
        path, temporary = self.folder / str(step), self.folder / f".{step}.tmp"
        kept = self.steps()
        cure = f"checkpoint {kept[-1]} is whole: make room, then go on with --resume" if kept else "make room"
        try:
            with writing(path, cure=cure):
                shutil.rmtree(temporary, ignore_errors=True)
                temporary.mkdir(parents=True)
                fill(temporary)
                files = sorted(temporary.iterdir())
                write_manifest(temporary, {file.name: hash_file(file) for file in files})
                for file in (*files, temporary):
                    sync(file)
                if path.exists():  # damaged, or training would not have gone back to before it
                    discard(path)
                temporary.replace(path)
                sync(self.folder)
                sync(self.run)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        self.keep(KEPT)

    def newest(self) -> Found:
        """The newest checkpoint whose files are what was written; an error if all of several are damaged."""
        notes: list[str] = []
        for step in reversed(self.steps()):
            try:
                verify(self.folder / str(step))
            except RunError as error:
                notes.append(f"checkpoint {step} is left out: {error.where} {error.what}")
                continue
            return Found(self.folder / str(step), tuple(notes))
        if notes:
            raise RunError(
                f"no checkpoint is whole: {notes[0]}", where=str(self.run), cure="train again in another folder"
            )
        return Found(None)

    def steps(self) -> list[int]:
        """The updates that there are checkpoints of."""
        return sorted(int(path.name) for path in self.folder.glob("*") if path.name.isdecimal() and path.is_dir())

    def keep(self, number: int) -> None:
        """Remove all but the newest."""
        for step in self.steps()[:-number]:
            discard(self.folder / str(step))

    def clean(self) -> None:
        """Remove what a process that was killed left half-written or half-removed."""
        for path in self.folder.glob(".*.tmp"):
            shutil.rmtree(path, ignore_errors=True)


def discard(path: Path) -> None:
    """Remove a folder; killed in the middle of it, what is left has no name that counts."""
    doomed = path.with_name(f".{path.name}.{os.getpid()}.old.tmp")
    path.replace(doomed)
    shutil.rmtree(doomed, ignore_errors=True)
