"""The character n-grams of words (Bojanowski et al., 2017): with them a word that was never seen has a vector too.

The n-grams of <word>, with marks for its ends, are hashed (FNV-1a) into `buckets` rows that they share.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

FNV_OFFSET, FNV_PRIME, MASK32 = 2166136261, 16777619, (1 << 32) - 1


def ngram_buckets(word: str, *, sizes: Sequence[int], buckets: int) -> list[int]:
    """The bucket of each n-gram of a word, for n from sizes[0] to sizes[1]; the whole <word> is no n-gram."""
    marked = f"<{word}>"
    least, most = sizes
    return [
        fnv1a(marked[start : start + n].encode("utf-8")) % buckets
        for start in range(len(marked))
        for n in range(least, min(most, len(marked) - start) + 1)
        if n < len(marked)
    ]


def fnv1a(data: bytes) -> int:
    """The 32-bit FNV-1a hash."""
    found = FNV_OFFSET
    for byte in data:
        found = ((found ^ byte) * FNV_PRIME) & MASK32
    return found


def word_parts(
    words: Sequence[str], *, sizes: Sequence[int], buckets: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The rows of a table with a row for each word and then the buckets: starts (V + 1,), rows (all parts).

    Word w is made of rows[starts[w] : starts[w + 1]]: its own row, then those of its n-grams.
    """
    parts = [
        [number, *(len(words) + bucket for bucket in ngram_buckets(word, sizes=sizes, buckets=buckets))]
        for number, word in enumerate(words)
    ]
    starts = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
    return starts, np.fromiter((row for part in parts for row in part), dtype=np.int32, count=int(starts[-1]))
