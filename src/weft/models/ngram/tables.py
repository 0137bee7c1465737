"""The tables of an n-gram model: for each order the log-probability of an n-gram, and the weight of its context.

log P(w | c) = log_probability(c w)                        if c w is in the tables
             = backoff(c) + log P(w | c without its first word)      if not; backoff(c) = 0 for an unknown context
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.text import MASK, PAD, SOS

ZERO: Final = -1e30
"""The logarithm of 0 in the tables, in which all numbers are finite."""

NEVER: Final = (PAD, SOS, MASK)
"""Tokens that no text has after its beginning: their probability is 0."""

Longs = NDArray[np.int64]
Floats = NDArray[np.float32]


class OrderTable(NamedTuple):
    """The n-grams of one order, sorted: keys (E,), natural log-probabilities (E,), and backoffs (E,) of the n-gram as a
    context. The highest order has backoffs of size 0.

    A key is the index of the context in the table below, times the size of the vocabulary, plus the last word. At order
    1 there is an entry for each word of the vocabulary, and its key is the word.
    """

    keys: Longs
    log_probabilities: Floats
    backoffs: Floats


def log(numbers: NDArray[np.float64]) -> Floats:
    """Return natural logarithms, `ZERO` for that of 0."""
    logs = np.log(numbers, where=numbers > 0, out=np.full(len(numbers), ZERO))
    return logs.astype(np.float32)


def producible(vocabulary: int) -> NDArray[np.bool_]:
    """Return which words (V,) a text can have after its beginning."""
    found = np.ones(vocabulary, dtype=bool)
    found[[token for token in NEVER if token < vocabulary]] = False
    return found
