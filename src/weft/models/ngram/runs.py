"""Sorted runs of n-grams: arrays that stay in memory up to a limit and go to files beyond it, and their merging.

A run is a sorted array of distinct keys with two numbers for each: how often it was counted, and its suffix. Runs that
together have more entries than the limit are merged part by part, each part a range of keys, into files on the disk.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Longs = NDArray[np.int64]
Integers = NDArray[np.integer[Any]]
"""Counts and indices: int32 where that is enough."""

MEMORY_ENTRIES: Final = 64_000_000
"""Numbers that a `Shelf` keeps in memory; the arrays after them go to files."""


class SortedRun(NamedTuple):
    """Distinct keys (E,) in ascending order, their counts (E,), and the index of each one's suffix (E,)."""

    keys: Longs
    counts: Integers
    suffixes: Integers

    def part(self, begin: int, end: int) -> SortedRun:
        """The entries from `begin` up to `end`."""
        return SortedRun(self.keys[begin:end], self.counts[begin:end], self.suffixes[begin:end])


class Shelf:
    """Arrays by name: in memory as long as they have at most `memory` numbers together, in files beyond that.

    An array from a file is mapped into memory: it is read when it is used, and its pages can be dropped.
    """

    def __init__(self, memory: int = MEMORY_ENTRIES) -> None:
        self.memory = memory
        self._kept: dict[str, NDArray[Any]] = {}
        self._files: dict[str, Path] = {}
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._made = 0

    def put(self, name: str, array: NDArray[Any]) -> None:
        """Store an array in place of the earlier one of this name."""
        self.drop(name)
        if self._used + array.size <= self.memory:
            self._kept[name] = array
            return
        path = self._new_file()
        np.save(path, array)
        self._files[name] = path

    def get(self, name: str) -> NDArray[Any]:
        """Return the array of this name."""
        if name in self._kept:
            return self._kept[name]
        mapped: NDArray[Any] = np.load(self._files[name], mmap_mode="r")
        return mapped

    def drop(self, name: str) -> None:
        """Forget the array of this name, if there is one."""
        self._kept.pop(name, None)
        path = self._files.pop(name, None)
        if path is not None:
            path.unlink()

    def fits(self, numbers: int) -> bool:
        """Return whether so many more numbers stay in memory."""
        return self._used + numbers <= self.memory

    def empty(self, name: str, size: int, kind: np.dtype[Any]) -> NDArray[Any]:
        """Return a new array of this name and type in a file, to be written in place."""
        path = self._new_file()
        self._files[name] = path
        return np.lib.format.open_memmap(path, mode="w+", dtype=kind, shape=(size,))

    @property
    def files(self) -> int:
        """The number of arrays that are in files now."""
        return len(self._files)

    @property
    def _used(self) -> int:
        return sum(array.size for array in self._kept.values())

    def _new_file(self) -> Path:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="weft-ngrams-")
        self._made += 1
        return Path(self._folder.name) / f"{self._made}.npy"


def merge(runs: Sequence[SortedRun], shelf: Shelf, name: str) -> SortedRun:
    """Merge runs into one, in which the counts of equal keys are added; it is stored on the shelf under the name."""
    size = sum(len(run.keys) for run in runs)
    if shelf.fits(len(SortedRun._fields) * size):
        merged = runs[0] if len(runs) == 1 else _merge_in_memory(runs)
        for field, array in merged._asdict().items():
            shelf.put(f"{name}.{field}", array)
        return merged
    kinds = {field: array.dtype for field, array in runs[0]._asdict().items()}
    files = {field: shelf.empty(f"{name}.{field}", size, kind) for field, kind in kinds.items()}
    end = 0
    for parts in _key_ranges(runs, max(1, shelf.memory // (2 * len(SortedRun._fields)))):
        merged = _merge_in_memory(parts)
        for field, array in merged._asdict().items():
            files[field][end : end + len(array)] = array
        end += len(merged.keys)
    return SortedRun(*(files[field][:end] for field in SortedRun._fields))


def _key_ranges(runs: Sequence[SortedRun], size: int) -> Iterator[list[SortedRun]]:
    """Yield the parts of all runs in ranges of keys with about `size` entries together."""
    total = sum(len(run.keys) for run in runs)
    longest = max(runs, key=lambda run: len(run.keys)).keys
    parts = max(1, -(-total // size))
    bounds = longest[np.linspace(0, len(longest) - 1, parts + 1).astype(np.int64)[1:-1]]
    places = [np.concatenate(([0], np.searchsorted(run.keys, bounds), [len(run.keys)])) for run in runs]
    for part in range(parts):
        cut = [run.part(at[part], at[part + 1]) for run, at in zip(runs, places, strict=True)]
        if any(len(run.keys) for run in cut):
            yield cut


def _merge_in_memory(runs: Sequence[SortedRun]) -> SortedRun:
    keys, counts, suffixes = (np.concatenate(arrays) for arrays in zip(*runs, strict=True))
    if not len(keys):
        return SortedRun(keys, counts, suffixes)
    order = np.argsort(keys, kind="stable")  # a sort by merging, which is fast for runs that are sorted already
    keys = keys[order]
    first = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    return SortedRun(keys[first], np.add.reduceat(counts[order], first, dtype=counts.dtype), suffixes[order[first]])
