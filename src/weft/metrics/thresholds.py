"""Decision thresholds of labels, chosen on validation data for the best F1.

Labels that exclude each other: the answer is argmax p / t. With two labels this is p > t. The thresholds t sum to 1 and
are found by coordinate ascent on macro F1: each in turn, while the others stay. Several labels at once: each label has
the threshold of its own best F1, halfway between two probabilities.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.metrics.scores import ratio

MIN_EXAMPLES = 50
"""With fewer examples thresholds would fit their noise."""

MIN_SUPPORT = 10
"""With fewer examples of a label, or fewer without it, its threshold stays as it is."""

ROUNDS, CANDIDATES = 3, 64
"""Passes over the labels, and thresholds that are tried for each label in a pass."""

EVEN = 0.5

Shares = NDArray[np.float64]


class Thresholds(NamedTuple):
    """The threshold of each label (C), and whether it was chosen (C); the others are those of a model without any."""

    values: Shares
    chosen: NDArray[np.bool_]


def supported(counts: NDArray[np.int64], examples: int) -> NDArray[np.bool_]:
    """Whether so many examples with each label (C), of so many in all, are enough to choose its threshold (C)."""
    enough: NDArray[np.bool_] = np.minimum(counts, examples - counts) >= MIN_SUPPORT
    return enough & (examples >= MIN_EXAMPLES)


def choose_thresholds(shares: Shares, labels: NDArray[np.int64]) -> Thresholds:
    """shares (N, C) that sum to 1 in each row, labels (N) in 0 … C-1 -> thresholds (C) that sum to 1."""
    classes = shares.shape[1]
    factors = np.ones(classes)
    chosen = supported(np.bincount(labels, minlength=classes), len(labels))
    if not chosen.any():
        return Thresholds(np.full(classes, 1 / classes), chosen)
    best = _macro_f1(labels, (shares / factors).argmax(1), classes)
    for _ in range(ROUNDS):
        before = best
        for label in np.flatnonzero(chosen).tolist():
            scaled = shares / factors
            others = np.delete(scaled, label, axis=1).max(1)
            # The label wins where its share over its factor exceeds that of the others.
            ratios = np.unique(shares[:, label] / np.maximum(others, 1e-30))
            steps = np.sqrt(ratios[1:] * ratios[:-1])
            for factor in steps[np.unique(np.linspace(0, len(steps) - 1, CANDIDATES).round().astype(int))]:
                if not factor > 0:
                    continue
                predicted = _with_factor(scaled, others, shares[:, label] / factor, label)
                found = _macro_f1(labels, predicted, classes)
                if found > best + 1e-12:
                    best, factors[label] = found, factor
        if best <= before:
            break
    return Thresholds(factors / factors.sum(), chosen)


def _with_factor(scaled: Shares, others: Shares, own: Shares, label: int) -> NDArray[np.int64]:
    """The answers if one label has these scaled shares (N)."""
    rest = scaled.copy()
    rest[:, label] = -1.0
    answers: NDArray[np.int64] = np.where(own > others, label, rest.argmax(1))
    return answers


def _macro_f1(gold: NDArray[np.int64], predicted: NDArray[np.int64], classes: int) -> float:
    """The mean F1 of the labels that occur in either."""
    correct = np.bincount(gold[gold == predicted], minlength=classes)
    both = np.bincount(gold, minlength=classes) + np.bincount(predicted, minlength=classes)
    there = both > 0
    return ratio(float((2 * correct[there] / both[there]).sum()), int(there.sum()))


def choose_each(shares: Shares, gold: NDArray[np.bool_]) -> Thresholds:
    """shares and gold (N, C) -> the threshold of each label (C); among equally good ones the nearest to one half."""
    thresholds = np.full(shares.shape[1], EVEN)
    chosen = supported(gold.sum(0), len(gold))
    for label in np.flatnonzero(chosen):
        thresholds[label] = _best_threshold(shares[:, label], gold[:, label])
    return Thresholds(thresholds, chosen)


def _best_threshold(shares: Shares, gold: NDArray[np.bool_]) -> float:
    """The threshold with the best F1: at k it takes the k examples with the greatest shares."""
    order = np.argsort(-shares, kind="stable")
    sorted_shares, right = shares[order], np.cumsum(gold[order])
    taken = np.arange(1, len(gold) + 1)
    scores = 2 * right / (taken + gold.sum())
    last = np.append(sorted_shares[1:] < sorted_shares[:-1], True)  # equal shares are taken together
    following = np.append(sorted_shares[1:], 0.0)
    middles = (sorted_shares + following) / 2
    scores, middles = scores[last], middles[last]
    good = middles[scores >= scores.max() - 1e-12]
    return float(np.clip(good[np.argmin(np.abs(good - EVEN))], 1e-6, 1 - 1e-6))
