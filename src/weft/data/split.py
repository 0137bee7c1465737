"""Holding out examples so that no text is on both sides, and telling whether two sets share some."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from weft.errors import DataError

Fingerprints: TypeAlias = NDArray[np.uint64]

_GOLDEN = 0x9E3779B97F4A7C15


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
    groups, members, sizes = np.unique(fingerprints, return_inverse=True, return_counts=True)
    if len(groups) < 2:
        what = f"nothing to hold out from: {len(groups)} different text{'s' * (len(groups) != 1)}"
        raise DataError(what, where="data.train", cure="give a file as data.valid")
    budget = min(fraction * len(fingerprints), most)
    order = np.argsort(_scramble(groups, seed))
    fitting = order[sizes[order] <= budget]
    taken = fitting[np.cumsum(sizes[fitting]) <= budget][: len(groups) - 1]
    if not len(taken):
        taken = order[np.argmin(sizes[order])][None]
    held = np.zeros(len(groups), dtype=np.bool_)
    held[taken] = True
    return held[members]


def overlap(train: Fingerprints, test: Fingerprints) -> int:
    """How many examples of `test` have a text that is also in `train`."""
    return int(np.isin(test, train).sum())


def _scramble(values: Fingerprints, seed: int) -> Fingerprints:
    """A one-to-one mixing of 64-bit numbers that differs with the seed (the finaliser of SplitMix64)."""
    mixed = values + np.uint64((seed + 1) * _GOLDEN % 2**64)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
