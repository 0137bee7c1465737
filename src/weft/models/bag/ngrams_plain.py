"""The plain version of finding n-grams, in numpy.

P_i = Σ_{j<i} s(c_j) b^j          hash of characters i to i + k = (P_{i+k} - P_i) b^{-i}
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.models.bag.characters import ALONE, BETWEEN, INSIDE, Characters

if TYPE_CHECKING:
    from weft.models.bag.ngrams import NgramKinds, SparseRows

Integers = NDArray[np.int64]
Hashes = NDArray[np.uint64]

CHARACTER_SALT: Final = 16
"""Added to the size of an n-gram of characters, to tell it from one of words."""

_BASE: Final = 0x9E3779B97F4A7C15
_MIX: Final = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_BLANK: Final = ord(" ")


class Counts(NamedTuple):
    """Columns and values of the n-grams of each text, which begin at `starts`."""

    starts: Integers
    columns: NDArray[np.int32]
    values: NDArray[np.float32]


def count_plain(texts: Characters, kinds: NgramKinds) -> Counts:
    """The buckets and counts of the n-grams of each text, in the order of the buckets."""
    owners, buckets = _occurrences(texts, kinds)
    keys, counts = np.unique(owners * kinds.buckets + buckets, return_counts=True)
    sizes = np.bincount(keys // kinds.buckets, minlength=len(texts))
    columns = (keys % kinds.buckets).astype(np.int32)
    return Counts(np.concatenate([[0], np.cumsum(sizes)]), columns, counts.astype(np.float32))


def weigh_plain(counts: SparseRows, rows: NDArray[np.int32], idf: NDArray[np.float32]) -> Counts:
    """The tf-idf weights of the n-grams that have a row, with the length 1 for each text."""
    columns = rows[counts.columns]
    known = columns >= 0
    texts, columns = np.repeat(np.arange(len(counts)), np.diff(counts.starts))[known], columns[known]
    values = (1 + np.log(counts.values[known])) * idf[columns]
    lengths = np.sqrt(np.bincount(texts, values.astype(np.float64) ** 2, minlength=len(counts)))
    starts = np.concatenate([[0], np.cumsum(np.bincount(texts, minlength=len(counts)))])
    return Counts(starts, columns, (values / lengths[texts]).astype(np.float32))


def _occurrences(texts: Characters, kinds: NgramKinds) -> tuple[Integers, Integers]:
    """The text and the bucket of each occurrence of an n-gram."""
    owner = np.repeat(np.arange(len(texts)), np.diff(texts.starts))
    new_text = np.zeros(len(owner), dtype=np.bool_)
    new_text[texts.starts[:-1][np.diff(texts.starts) > 0]] = True
    before = np.concatenate([[BETWEEN], texts.kinds[:-1]])[: len(owner)]
    first = (texts.kinds == ALONE) | ((texts.kinds == INSIDE) & ((before != INSIDE) | new_text))
    kept = np.flatnonzero(texts.kinds != BETWEEN)
    begins = first[kept]
    # Words in a row, with one blank before each of them and after the last.
    places = np.arange(len(kept)) + np.cumsum(begins)
    row = np.full(len(kept) + int(begins.sum()) + 1, _BLANK, dtype=np.uint64)
    row[places] = texts.codes[kept]
    owners = np.zeros(len(row), dtype=np.int64)
    owners[places] = owner[kept]
    substrings = _Substrings(row)
    starts = places[begins]
    ends = np.append(starts[1:] - 1, len(row) - 1)[: len(starts)]
    words, word_owners = substrings.hashes(starts, ends), owners[starts]
    found = [(word_owners, _bucket(words, 1, kinds.buckets))]
    hashes = words
    for size in range(2, kinds.words + 1):
        hashes = hashes[:-1] * np.uint64(_BASE) + words[size - 1 :]
        whole = word_owners[size - 1 :] == word_owners[: len(hashes)]
        found.append((word_owners[: len(hashes)][whole], _bucket(hashes[whole], size, kinds.buckets)))
        if not len(hashes):
            break
    blanks = np.concatenate([[0], np.cumsum(row == _BLANK)])
    for size in range(kinds.least, kinds.most + 1) if kinds.most else ():
        at = np.arange(max(0, len(row) - size + 1))
        inner = blanks[at + size - 1] == blanks[at + 1] if size > 1 else row[at] != _BLANK  # a blank only at the ends
        at = at[inner]
        letters = at + (row[at] == _BLANK)
        found.append((owners[letters], _bucket(substrings.hashes(at, at + size), CHARACTER_SALT + size, kinds.buckets)))
    return np.concatenate([texts for texts, _ in found]), np.concatenate([buckets for _, buckets in found])


class _Substrings:
    """Hashes of all substrings of a row of codes."""

    def __init__(self, row: Hashes) -> None:
        powers = np.full(len(row) + 1, _BASE, dtype=np.uint64)
        inverse = np.full(len(row) + 1, pow(_BASE, -1, 2**64), dtype=np.uint64)
        powers[0] = inverse[0] = 1
        powers, self.inverse = np.cumprod(powers), np.cumprod(inverse)
        spread = (row + np.uint64(1)) * _MIX[0]
        spread ^= spread >> np.uint64(29)
        self.sums = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(spread * powers[:-1])])

    def hashes(self, starts: Integers, ends: Integers) -> Hashes:
        found: Hashes = (self.sums[ends] - self.sums[starts]) * self.inverse[starts]
        return found


def _bucket(hashes: Hashes, salt: int, buckets: int) -> Integers:
    """The upper bits of a mixed hash, which depend on every character."""
    mixed = hashes + np.uint64(salt * _BASE % 2**64)
    mixed ^= mixed >> np.uint64(30)
    mixed *= _MIX[0]
    mixed ^= mixed >> np.uint64(27)
    mixed *= _MIX[1]
    return (((mixed >> np.uint64(32)) * np.uint64(buckets)) >> np.uint64(32)).astype(np.int64)
