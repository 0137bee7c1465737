"""Runs in memory: loaded when they are first needed, again when their folder changed, the oldest dropped for others."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from weft.errors import RunError
from weft.studio.discovery import JOURNAL, MANIFEST, Found

if TYPE_CHECKING:
    from weft.run import Run

MAX_RUNS: Final = 8
MAX_BYTES: Final = 2 << 30
"""Runs in memory, and the bytes of their weights together; the one in use is kept in any case."""


@dataclass
class Entry:
    """A loaded run, the mark of its files, and the bytes of its weights."""

    run: Run
    mark: tuple[Any, ...]
    bytes: int


class LoadedRuns:
    """A cache of runs, by their id."""

    def __init__(self, cells: Mapping[str, Any], *, runs: int = MAX_RUNS, bytes: int = MAX_BYTES) -> None:
        self.cells, self.max_runs, self.max_bytes = cells, runs, bytes
        self.entries: OrderedDict[str, Entry] = OrderedDict()
        self.lock = threading.Lock()

    def get(self, found: Found) -> Run:
        """Return the run, loaded on the CPU; raise a RunError where it cannot be."""
        mark = _mark(found)
        with self.lock:
            entry = self.entries.get(found.id)
            if entry is not None and entry.mark == mark:
                self.entries.move_to_end(found.id)
                return entry.run
            self.entries.pop(found.id, None)
        run, size = self._load(found)
        with self.lock:
            self.entries[found.id] = Entry(run, mark, size)
            self._drop()
        return run

    def _load(self, found: Found) -> tuple[Run, int]:
        from weft.run import load

        run = load(found.folder, device="cpu", cells=self.cells)
        tensors = [*run.model.parameters(), *run.model.buffers()]
        return run, sum(tensor.numel() * tensor.element_size() for tensor in tensors)

    def _drop(self) -> None:
        """Drop the runs that were not used for the longest time, until the others are within the limits."""
        while len(self.entries) > 1 and (
            len(self.entries) > self.max_runs or sum(entry.bytes for entry in self.entries.values()) > self.max_bytes
        ):
            self.entries.popitem(last=False)


def _mark(found: Found) -> tuple[Any, ...]:
    """Return what changes when a run is saved again: the manifest is written last."""
    try:
        info = (found.folder / MANIFEST).lstat()
    except OSError:
        training = (found.folder / JOURNAL).exists()
        cure = "wait for its first validation" if training else "train it again"
        raise RunError("has no model yet", where=found.id, cure=cure) from None
    return info.st_mtime_ns, info.st_size, info.st_ino
