"""Holding out examples so that no text is on both sides, and telling whether two sets share some."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from weft.errors import DataError, counted

Fingerprints: TypeAlias = NDArray[np.uint64]

_GOLDEN = 0x9E3779B97F4A7C15

_PART = 1 << 20


def fingerprints(keys: Iterable[str]) -> Fingerprints:
    """A number (N,) per key, the same on every machine and in every process.

    Keys that differ only in their blanks are the same key; upper and lower case differ.
    """
    return np.fromiter((_fingerprint(key) for key in keys), dtype=np.uint64)


def _fingerprint(key: str) -> int:
    text = " ".join(key.split()).encode("utf-8", errors="surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "little")


def hold_out(
    fingerprints: Fingerprints, *, fraction: float = 0.1, most: int = 2000, seed: int = 0
) -> NDArray[np.bool_]:
    """True (N,) for the examples to hold out: about `fraction` of them, `most` at most, equal fingerprints together.

    Which ones depends on the fingerprints and the seed alone, not on the order of the examples. Something is always
    held out and something always stays, so the budget is exceeded where every group is larger.
    """
    # Sorted by scrambled value, equal ones stand together and the groups are in random order at the same time.
    mixed = _scramble(fingerprints, seed)
    mixed.sort()
    if not len(mixed) or mixed[0] == mixed[-1]:
        groups = min(len(mixed), 1)
        what = f"nothing to hold out from: {counted(groups, 'different text')}"
        raise DataError(what, where="data.train", cure="give a file as data.valid")
    budget = min(fraction * len(fingerprints), most)
    taken = _take(mixed, budget)
    del mixed
    held = np.empty(len(fingerprints), dtype=np.bool_)
    for part in _parts(len(fingerprints)):
        held[part] = _among(_scramble(fingerprints[part], seed), taken)
    return held


def _take(ordered: Fingerprints, budget: float) -> Fingerprints:
    """The groups to take from the beginning: those that fit, while they fit, but not all; else the smallest."""
    look = int(budget) * 4 + 2
    while True:
        groups, sizes = np.unique(ordered[:look], return_counts=True)
        whole = look >= len(ordered)
        if not whole:  # the last group may go on
            groups, sizes = groups[:-1], sizes[:-1]
        small = sizes <= budget
        sums = np.cumsum(sizes[small])
        if whole:
            taken = groups[small][sums <= budget][: len(groups) - 1]
            return taken if len(taken) else groups[[np.argmin(sizes)]]
        if len(sums) and sums[-1] > budget:
            return groups[small][sums <= budget]
        look *= 8


def overlap(train: Fingerprints, test: Fingerprints) -> int:
    """How many examples of `test` have a text that is also in `train`."""
    texts, counts = np.unique(test, return_counts=True)
    shared = np.zeros(len(texts), dtype=np.bool_)
    for part in _parts(len(train)):
        known = train[part]
        shared[np.searchsorted(texts, known[_among(known, texts)])] = True
    return int(counts[shared].sum())


def _among(values: Fingerprints, ordered: Fingerprints) -> NDArray[np.bool_]:
    """True (N,) for each value that is in the sorted array."""
    if not len(ordered):
        return np.zeros(len(values), dtype=np.bool_)
    places = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
    found: NDArray[np.bool_] = ordered[places] == values
    return found


def _parts(size: int) -> Iterator[slice]:
    """All of `size` values, a million at a time: what is computed from them must not need as much memory again."""
    return (slice(start, start + _PART) for start in range(0, size, _PART))


def _scramble(values: Fingerprints, seed: int) -> Fingerprints:
    """A one-to-one mixing of 64-bit numbers that differs with the seed (the finaliser of SplitMix64)."""
    mixed = values + np.uint64((seed + 1) * _GOLDEN % 2**64)
    for part in _parts(len(mixed)):
        piece = mixed[part]
        piece ^= piece >> np.uint64(30)
        piece *= np.uint64(0xBF58476D1CE4E5B9)
        piece ^= piece >> np.uint64(27)
        piece *= np.uint64(0x94D049BB133111EB)
        piece ^= piece >> np.uint64(31)
    return mixed
