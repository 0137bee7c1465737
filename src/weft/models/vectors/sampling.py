"""The random choices of word2vec: frequent words that are left out, and words drawn as noise.

f(w) = count(w) / all words
keep(w) = min(1, √(t / f(w)) + t / f(w))            t the setting `subsample`
noise(w) ∝ count(w)^0.75                            drawn by the alias method
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

NOISE_POWER: Final = 0.75

MASK64: Final = (1 << 64) - 1


class Noise(NamedTuple):
    """An alias table: entry e is word first[e] with probability share[e], and else second[e]; all entries are alike."""

    share: NDArray[np.float32]
    first: NDArray[np.int32]
    second: NDArray[np.int32]


def keep_shares(counts: NDArray[np.int64], subsample: float) -> NDArray[np.float32]:
    """counts (V,) -> the probability (V,) with which an occurrence of each word is kept; 0 turns it off."""
    if not subsample:
        return np.ones(len(counts), dtype=np.float32)
    frequency = np.maximum(counts, 1) / max(int(counts.sum()), 1)
    ratio = subsample / frequency
    return np.minimum(1.0, np.sqrt(ratio) + ratio).astype(np.float32)


def noise_shares(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """counts (V,) -> the probability (V,) of each word as noise; words that do not occur have 0."""
    power = np.where(counts > 0, counts.astype(np.float64) ** NOISE_POWER, 0.0)
    shares: NDArray[np.float64] = power / power.sum()
    return shares


def build_noise(counts: NDArray[np.int64]) -> Noise:
    """The alias table of the words that occur: each entry has the same probability, shared by at most two words."""
    words = np.flatnonzero(counts)
    scaled = noise_shares(counts)[words] * len(words)
    share = np.ones(len(words), dtype=np.float32)
    second = np.arange(len(words), dtype=np.int32)
    small, large = list(np.flatnonzero(scaled < 1.0)), list(np.flatnonzero(scaled >= 1.0))
    while small and large:
        low, high = small.pop(), large[-1]
        share[low], second[low] = scaled[low], high
        scaled[high] -= 1.0 - scaled[low]
        if scaled[high] < 1.0:
            small.append(large.pop())
    first = words.astype(np.int32)
    return Noise(share, first, first[second])


class Random:
    """The generator of the C code in Python: xorshift64*, seeded by splitmix64 from a seed and the number of a task."""

    def __init__(self, seed: int, task: int) -> None:
        x = (seed + (task + 1) * 0x9E3779B97F4A7C15) & MASK64
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK64
        self.state = (x ^ (x >> 31)) or 1

    def next(self) -> int:
        """64 random bits."""
        x = self.state
        x ^= x >> 12
        x ^= (x << 25) & MASK64
        x ^= x >> 27
        self.state = x
        return (x * 2685821657736338717) & MASK64

    def unit(self) -> float:
        """A number in [0, 1), with 24 bits."""
        return unit(self.next())

    def below(self, count: int) -> int:
        """A whole number in [0, count), by the upper 32 bits."""
        return ((self.next() >> 32) * count) >> 32

    def draw(self, noise: Noise) -> int:
        """A word of the noise distribution."""
        random = self.next()
        entry = ((random >> 32) * len(noise.share)) >> 32
        return int(noise.first[entry] if unit(random) < noise.share[entry] else noise.second[entry])


def unit(random: int) -> float:
    """The lower 24 bits as a number in [0, 1)."""
    return (random & 0xFFFFFF) / 16777216.0
