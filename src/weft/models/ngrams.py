"""Texts as counts of hashed n-grams: words and pairs of words, and 2 to 5 characters within a word.

A polynomial hash of every substring comes from one running sum, so that no n-gram is ever a Python object:

    P_i = Σ_{j<i} c_j b^j          hash(i, k) = (P_{i+k} - P_i) b^{-i}          c code of a character, b odd, mod 2^64
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Hashes = NDArray[np.uint64]

HASH_BITS = 22
"""Bits of the hash that identifies an n-gram."""

MAX_NGRAM_CHARACTERS = 5
"""Characters of the longest n-gram within a word; a blank before and after the word counts."""

CHUNK_CHARACTERS = 1 << 20
"""Characters of texts that are counted together."""

MAX_TEXT_CHARACTERS = 20_000
"""Characters of a text that are read; the rest is ignored."""

_BASE = 0x9E3779B97F4A7C15
_BLANK = 32
_NO_BLANKS = (
    (0x0E00, 0x0EFF),
    (0x1000, 0x109F),
    (0x1780, 0x17FF),
    (0x3040, 0x30FF),
    (0x3400, 0x9FFF),
    (0x20000, 0x3FFFF),
)
"""Ranges of letters of scripts without blanks between words; each letter counts as a word."""


class Counts(NamedTuple):
    """Counts of the n-grams of each text: `columns` (n-grams) and `values` (counts) of text i begin at `starts[i]`."""

    starts: Integers
    columns: NDArray[np.int32]
    values: NDArray[np.float32]


def count_ngrams(texts: Iterable[str], *, characters: bool) -> Counts:
    """Count the n-grams of words, and with `characters` also those of characters, by their hash."""
    sizes, columns, values = [np.zeros(1, dtype=np.int64)], [], []
    for chunk in _chunks(texts):
        keys, counts = np.unique(_keys(chunk, characters=characters), return_counts=True)
        sizes.append(np.bincount(keys >> HASH_BITS, minlength=len(chunk)))
        columns.append((keys & ((1 << HASH_BITS) - 1)).astype(np.int32))
        values.append(counts.astype(np.float32))
    if not columns:
        return Counts(sizes[0], np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.float32))
    return Counts(np.cumsum(np.concatenate(sizes)), np.concatenate(columns), np.concatenate(values))


def _chunks(texts: Iterable[str]) -> Iterator[list[str]]:
    chunk: list[str] = []
    size = 0
    for text in texts:
        chunk.append(text[:MAX_TEXT_CHARACTERS].lower())
        size += len(chunk[-1])
        if size >= CHUNK_CHARACTERS:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _keys(texts: Sequence[str], *, characters: bool) -> Integers:
    """A number for each occurrence of an n-gram: the index of its text, shifted, and the bits of its hash."""
    raw = "\n".join(texts).encode("utf-32-le", errors="surrogatepass")
    codes = np.frombuffer(raw, dtype=np.uint32)
    owner = np.repeat(np.arange(len(texts)), [len(text) + 1 for text in texts])[: len(codes)]
    kinds = _kinds(codes)
    before = np.concatenate([[0], kinds[:-1]])
    first = (kinds == ALONE) | ((kinds == INSIDE) & (before != INSIDE))
    kept = np.flatnonzero(kinds)
    begins = first[kept]
    # Words in a row, with one blank before each of them and after the last.
    places = np.arange(len(kept)) + np.cumsum(begins)
    row = np.full(len(kept) + int(begins.sum()) + 1, _BLANK, dtype=np.uint64)
    row[places] = codes[kept]
    texts_of = np.zeros(len(row), dtype=np.int64)
    texts_of[places] = owner[kept]
    substring = _Substrings(row)
    starts = places[begins]
    ends = np.append(starts[1:] - 1, len(row) - 1)[: len(starts)]
    words, word_texts = substring.hashes(starts, ends), texts_of[starts]
    same = word_texts[1:] == word_texts[:-1]
    pairs = (words[:-1] * np.uint64(_BASE) + words[1:])[same]
    found = [(word_texts, words, 1), (word_texts[1:][same], pairs, 2)]
    if characters:
        blanks = np.concatenate([[0], np.cumsum(row == _BLANK)])
        for size in range(2, MAX_NGRAM_CHARACTERS + 1):
            at = np.arange(max(0, len(row) - size + 1))
            at = at[blanks[at + size - 1] == blanks[at + 1]]  # a blank only at the ends
            inner = at + (row[at] == _BLANK)
            found.append((texts_of[inner], substring.hashes(at, at + size), 2 + size))
    return np.concatenate([(text << HASH_BITS) | _bucket(hashes, salt) for text, hashes, salt in found])


INSIDE, ALONE = 1, 2


def _kinds(codes: NDArray[np.uint32]) -> NDArray[np.int8]:
    """The kind of each character: 0 between words, `INSIDE` a word, or `ALONE` a word."""
    table = np.zeros(int(codes.max(initial=0)) + 1, dtype=np.int8)
    for code in np.flatnonzero(np.bincount(codes)):
        table[code] = _kind(chr(code))
    return table[codes]


def _kind(character: str) -> int:
    if any(low <= ord(character) <= high for low, high in _NO_BLANKS):
        return ALONE
    category = unicodedata.category(character)[0]
    return INSIDE if category in "LNM" else 0 if category in "ZC" or character == "'" else ALONE


class _Substrings:
    """Hashes of all substrings of a row of codes."""

    def __init__(self, row: Hashes) -> None:
        powers = np.full(len(row) + 1, _BASE, dtype=np.uint64)
        inverse = np.full(len(row) + 1, pow(_BASE, -1, 2**64), dtype=np.uint64)
        powers[0] = inverse[0] = 1
        powers, self.inverse = np.cumprod(powers), np.cumprod(inverse)
        spread = (row + np.uint64(1)) * np.uint64(0xBF58476D1CE4E5B9)
        self.sums = np.concatenate(
            [np.zeros(1, dtype=np.uint64), np.cumsum((spread ^ (spread >> np.uint64(29))) * powers[:-1])]
        )

    def hashes(self, starts: Integers, ends: Integers) -> Hashes:
        found: Hashes = (self.sums[ends] - self.sums[starts]) * self.inverse[starts]
        return found


def _bucket(hashes: Hashes, salt: int) -> Integers:
    """The upper bits of a mixed hash, which depend on every character."""
    mixed = hashes + np.uint64(salt * _BASE % 2**64)
    mixed ^= mixed >> np.uint64(30)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    return (mixed >> np.uint64(64 - HASH_BITS)).astype(np.int64)
