"""The character n-grams of words (Bojanowski et al., 2017): with them a word that was never seen has a vector too.

The n-grams of <word>, with marks for its ends, are hashed (FNV-1a) into `buckets` rows that they share.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

FNV_OFFSET: Final = 2166136261
FNV_PRIME: Final = 16777619
MASK32: Final = (1 << 32) - 1


def ngram_buckets(word: str, *, sizes: Sequence[int], buckets: int) -> list[int]:
    """The bucket of each n-gram of a word, for n from sizes[0] to sizes[1]; the whole <word> is no n-gram."""
    letters = [letter.encode("utf-8", "surrogatepass") for letter in f"<{word}>"]
    least, most = sizes
    found = []
    for start in range(len(letters)):
        hashed = FNV_OFFSET
        for n, letter in enumerate(letters[start : start + most], 1):
            for byte in letter:
                hashed = ((hashed ^ byte) * FNV_PRIME) & MASK32
            if least <= n < len(letters):
                found.append(hashed % buckets)
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
