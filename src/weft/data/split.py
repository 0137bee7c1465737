"""Holds out examples so that no text is in both parts, and counts the texts that two sets share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from weft.errors import DataError, counted

Fingerprints: TypeAlias = NDArray[np.uint64]

_GOLDEN = 0x9E3779B97F4A7C15

_PART_VALUES = 1 << 20


def fingerprints(keys: Iterable[str]) -> Fingerprints:
    """Return a hash (N,) of each key, the same on every machine and in every process.

    Keys that differ only in blanks have the same hash; upper and lower case differ.
    """
    return np.fromiter((_fingerprint(key) for key in keys), dtype=np.uint64)


def _fingerprint(key: str) -> int:
    text = " ".join(key.split()).encode("utf-8", errors="surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "little")


def hold_out(
    fingerprints: Fingerprints,
    *,
    strata: Fingerprints | None = None,
    fraction: float = 0.1,
    most: int = 2000,
    seed: int = 0,
) -> NDArray[np.bool_]:
    """Return True (N,) for the examples to hold out: about `fraction`, at most `most`, equal fingerprints together.

    The choice depends on the fingerprints and the seed only, not on the order of the examples. At least one group of
    equal fingerprints is held out and at least one stays, so the budget is exceeded if every group is larger. With
    `strata`, such as labels, each stratum gives its share and keeps at least one text.
    """
    if strata is not None:
        return _hold_out_each(fingerprints, strata, fraction=fraction, most=most, seed=seed)
    # Sorting by scrambled value puts equal ones together and the groups in random order.
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


def _hold_out_each(
    fingerprints: Fingerprints, strata: Fingerprints, *, fraction: float, most: int, seed: int
) -> NDArray[np.bool_]:
    """`hold_out` from each stratum. A text in several strata is never held out."""
    texts, of_text, sizes = np.unique(_scramble(fingerprints, seed), return_inverse=True, return_counts=True)
    names, stratum = np.unique(strata, return_inverse=True)
    lowest, highest = np.full(len(texts), len(names)), np.full(len(texts), -1)
    np.minimum.at(lowest, of_text, stratum)
    np.maximum.at(highest, of_text, stratum)
    pairs = np.unique(stratum * len(texts) + of_text)
    kinds = np.bincount(pairs // max(1, len(texts)), minlength=len(names))  # texts of each stratum
    own = lowest == highest
    own[own] = kinds[lowest[own]] > 1
    if not own.any():
        what = "nothing to hold out from: no label has two texts of its own"
        raise DataError(what, where="data.train", cure="check data.label, or give a file as data.valid")
    free = np.flatnonzero(own)
    free = free[
        np.argsort(lowest[free], kind="stable")
    ]  # by stratum; within one in random order, since they are scrambled
    ends = np.searchsorted(lowest[free], np.arange(len(names)), side="right")
    budgets = _share_out(
        np.bincount(lowest[free], sizes[free], minlength=len(names)), min(fraction * len(strata), most), names, seed
    )
    taken = np.zeros(len(texts), dtype=np.bool_)
    for number in np.flatnonzero(budgets):
        mine = free[ends[number - 1] if number else 0 : ends[number]]
        fits = mine[sizes[mine] <= budgets[number]]
        fits = fits[np.cumsum(sizes[fits]) <= budgets[number]]
        taken[fits[: kinds[number] - 1]] = True
    if not taken.any():
        taken[free[np.argmin(sizes[free])]] = True
    held: NDArray[np.bool_] = taken[of_text]
    return held


def _share_out(sizes: NDArray[Any], budget: float, names: Fingerprints, seed: int) -> NDArray[np.int64]:
    """Share the budget among the sizes in proportion, in whole numbers: the largest remainders are rounded up.

    Among equal remainders the seed decides.
    """
    exact = sizes * min(1.0, budget / sizes.sum())
    whole: NDArray[np.int64] = np.floor(exact).astype(np.int64)
    order = np.lexsort((_scramble(names, seed), whole - exact))
    rest = max(1, round(min(budget, float(sizes.sum())))) - int(whole.sum())
    whole[order[: max(0, rest)]] += 1
    return whole


def _take(ordered: Fingerprints, budget: float) -> Fingerprints:
    """Return the first groups that fit into the budget, but not all groups; if none fits, the smallest."""
    look = int(budget) * 4 + 2
    while True:
        groups, sizes = np.unique(ordered[:look], return_counts=True)
        whole = look >= len(ordered)
        if not whole:  # the last group may be incomplete
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
    """The number of examples of `test` whose text is also in `train`."""
    texts, counts = np.unique(test, return_counts=True)
    shared = np.zeros(len(texts), dtype=np.bool_)
    for part in _parts(len(train)):
        known = train[part]
        shared[np.searchsorted(texts, known[_among(known, texts)])] = True
    return int(counts[shared].sum())


def _among(values: Fingerprints, ordered: Fingerprints) -> NDArray[np.bool_]:
    """Return True (N,) for each value that is in the sorted array."""
    if not len(ordered):
        return np.zeros(len(values), dtype=np.bool_)
    places = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
    found: NDArray[np.bool_] = ordered[places] == values
    return found


def _parts(size: int) -> Iterator[slice]:
    """Slices of about a million values, so that computing with them needs little memory."""
    return (slice(start, start + _PART_VALUES) for start in range(0, size, _PART_VALUES))


def _scramble(values: Fingerprints, seed: int) -> Fingerprints:
    """Permute 64-bit numbers by the seed (the finaliser of SplitMix64)."""
    mixed = values + np.uint64((seed + 1) * _GOLDEN % 2**64)
    for part in _parts(len(mixed)):
        piece = mixed[part]
        piece ^= piece >> np.uint64(30)
        piece *= np.uint64(0xBF58476D1CE4E5B9)
        piece ^= piece >> np.uint64(27)
        piece *= np.uint64(0x94D049BB133111EB)
        piece ^= piece >> np.uint64(31)
    return mixed
