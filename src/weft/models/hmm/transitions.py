"""The probability of a tag after those before it, by deleted interpolation of counts (Brants, 2000).

    P(c|a, b) = λ_1 P̂(c) + λ_2 P̂(c|b) + λ_3 P̂(c|a, b)

Each triple a b c of the training data adds its count to the λ of the estimate that predicts it best once this triple
itself is left out: the largest of (f(c) - 1) / (N - 1), (f(b, c) - 1) / (f(b) - 1), (f(a, b, c) - 1) / (f(a, b) - 1).
Order 1 has no triples, and pairs are counted in the same way. The end of a sentence is a tag too, number L, and so are
the two places before its first word.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.float64]


def count_histories(tags: NDArray[np.int64], lengths: NDArray[np.int64], labels: int, *, order: int) -> Counts:
    """tags of all sentences one after another, with their lengths -> f (L + 1, …), with `order` + 1 dimensions."""
    before, size = order, labels + 1
    starts = np.cumsum(lengths + before + 1) - (lengths + before + 1)
    sequence = np.full(int((lengths + before + 1).sum()), labels, dtype=np.int64)
    places = np.repeat(starts + before - (np.cumsum(lengths) - lengths), lengths) + np.arange(len(tags))
    sequence[places] = tags
    outcome = np.ones(len(sequence), dtype=np.bool_)
    for step in range(before):
        outcome[starts + step] = False
    ends = np.flatnonzero(outcome)
    keys = np.zeros(len(ends), dtype=np.int64)
    for step in range(before, -1, -1):
        keys = keys * size + sequence[ends - step]
    return np.bincount(keys, minlength=size ** (order + 1)).reshape((size,) * (order + 1)).astype(np.float64)


def interpolate(counts: Counts) -> tuple[Counts, NDArray[np.float64]]:
    """f (L + 1, …) -> P of the last dimension given those before, of the same shape, and the weights λ.

    No probability is 0: each λ begins with a count of 1, and so does each tag. An estimate from a history that was
    never seen is replaced by the next shorter one.
    """
    order = counts.ndim - 1
    shorter = [counts.sum(axis=tuple(range(drop))) for drop in range(order, -1, -1)]  # f(c), f(b, c), f(a, b, c)
    weights = deleted_weights(shorter)
    single = (shorter[0] + 1) / (shorter[0].sum() + len(shorter[0]))
    estimate, mixed = single, weights[0] * single
    for own, weight in zip(shorter[1:], weights[1:], strict=True):
        total = own.sum(axis=-1, keepdims=True)
        estimate = np.where(total > 0, own / np.maximum(total, 1), estimate[None])
        mixed = mixed[None] + weight * estimate
    return mixed, weights


def deleted_weights(shorter: list[Counts]) -> NDArray[np.float64]:
    """The weights λ of the estimates from f(c), f(b, c), …, which sum to 1."""
    whole = shorter[-1]
    seen = np.nonzero(whole)
    found = []
    for own in shorter:
        here = tuple(seen[whole.ndim - own.ndim :])
        rest = own.sum(axis=-1, keepdims=True).repeat(own.shape[-1], axis=-1)[here] - 1
        found.append(np.where(rest > 0, (own[here] - 1) / np.maximum(rest, 1), 0.0))
    # Of equal estimates that with the longer history counts.
    best = len(shorter) - 1 - np.stack(found[::-1]).argmax(axis=0)
    weights = 1 + np.bincount(best, weights=whole[seen], minlength=len(shorter))
    normal: NDArray[np.float64] = weights / weights.sum()
    return normal
