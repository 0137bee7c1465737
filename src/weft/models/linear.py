"""A linear classifier on n-grams: the baseline that a network has to beat.

    x = tf-idf of the n-grams, |x| = 1          p = softmax(W x + b)          min  Σ -ln p + |W|² / 2C

tf = 1 + ln count, idf = 1 + ln (1 + N) / (1 + texts with the n-gram); found by L-BFGS, the same for the same data.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from weft.models.ngrams import HASH_BITS, Counts, Integers, count_ngrams

ERROR_WEIGHT = 3.0
"""C: the weight of errors against the size of the weights."""

MAX_ITERATIONS = 50
"""Iterations of L-BFGS; the accuracy hardly changes after half as many."""

SHORT_CHARACTERS = 300
"""Mean length of texts up to which n-grams of characters are counted too: longer texts have enough words."""

MAX_CHARACTERS, MAX_SHORT_CHARACTERS = 40_000_000, 4_000_000
"""Characters of all texts together, for longer texts and for short ones; of more, a random part is used."""

MAX_WEIGHTS = 1 << 22
"""Weights of all classes together; of more, those of the rarest n-grams are left out."""


class SparseRows(NamedTuple):
    """A sparse matrix by its rows: row i has the `values` at `columns` from `starts[i]` on."""

    starts: Tensor
    columns: Tensor
    values: Tensor

    def times(self, dense: Tensor) -> Tensor:
        """The product with a dense matrix."""
        if not len(self.columns):
            return dense.new_zeros(len(self.starts), dense.size(1))
        return F.embedding_bag(self.columns, dense, self.starts, mode="sum", per_sample_weights=self.values)


@dataclass(frozen=True)
class LinearClassifier:
    """Weights (D, C) and biases (C); `places` is the row of each n-gram in the weights, -1 for those without one."""

    places: NDArray[np.int32]
    idf: NDArray[np.float32]
    weights: Tensor
    bias: Tensor
    characters: bool
    fitted: int
    """The number of texts that it was fitted on."""

    def predict(self, texts: Sequence[str]) -> Integers:
        """The likeliest class of each text (N)."""
        if not texts:
            return np.zeros(0, dtype=np.int64)
        rows = _weigh(count_ngrams(texts, characters=self.characters), self.places, self.idf)
        found: Integers = (rows.times(self.weights) + self.bias).argmax(-1).numpy()
        return found


def fit_linear(examples: Iterable[tuple[str, int]], classes: int, *, seed: int = 0) -> LinearClassifier:
    """Fit a classifier to texts with their classes in 0 … `classes` - 1."""
    texts, labels = _sample(examples, classes, seed)
    characters = sum(map(len, texts)) <= SHORT_CHARACTERS * len(texts)
    counts = count_ngrams(texts, characters=characters)
    places, idf = _choose(counts, classes)
    rows = _weigh(counts, places, idf)
    weights, bias = _minimise(rows, torch.from_numpy(labels), len(idf), classes)
    return LinearClassifier(places, idf, weights, bias, characters, len(texts))


def _sample(examples: Iterable[tuple[str, int]], classes: int, seed: int) -> tuple[list[str], Integers]:
    """All texts if they are not too many, else a random part: whenever there are too many, half of them are dropped."""
    random, share = np.random.default_rng(seed), 1.0
    kept: list[tuple[float, str, int]] = []
    count = characters = work = 0
    for text, label in examples:
        chance = random.random()
        count, characters = count + 1, characters + len(text)
        if chance >= share:
            continue
        kept.append((chance, text, label))
        work += max(len(text), classes)
        while (
            work > (MAX_SHORT_CHARACTERS if characters <= SHORT_CHARACTERS * count else MAX_CHARACTERS)
            and len(kept) > 1
        ):
            share /= 2
            kept = [item for item in kept if item[0] < share]
            work = sum(max(len(text), classes) for _, text, _ in kept)
    return [text for _, text, _ in kept], np.array([label for *_, label in kept], dtype=np.int64)


def _choose(counts: Counts, classes: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Choose the most frequent n-grams that are in at least two texts -> the place of every n-gram, and their idf."""
    texts = np.bincount(counts.columns, minlength=1 << HASH_BITS)
    size = max(1, MAX_WEIGHTS // classes)
    least = 2
    if np.count_nonzero(texts >= least) > size:
        least = int(np.partition(texts, -size)[-size]) + 1
    chosen = np.flatnonzero(texts >= least)
    places = np.full(1 << HASH_BITS, -1, dtype=np.int32)
    places[chosen] = np.arange(len(chosen))
    return places, (1 + np.log(len(counts.starts) / (1 + texts[chosen]))).astype(np.float32)


def _weigh(counts: Counts, places: NDArray[np.int32], idf: NDArray[np.float32]) -> SparseRows:
    """The tf-idf of each text, as a vector of length 1."""
    columns = places[counts.columns]
    known = columns >= 0
    size = len(counts.starts) - 1
    texts = np.repeat(np.arange(size), np.diff(counts.starts))[known]
    columns = columns[known]
    values = (1 + np.log(counts.values[known])) * idf[columns]
    norms = np.sqrt(np.bincount(texts, values * values, minlength=size))
    values = (values / norms[texts]).astype(np.float32)
    return _rows(texts, columns, values, size)


def _rows(rows: Integers, columns: NDArray[np.int32], values: NDArray[np.float32], size: int) -> SparseRows:
    """The matrix of `size` rows with these entries, ordered by their row."""
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=size))[:-1]]).astype(np.int32)
    return SparseRows(*map(torch.from_numpy, (starts, columns, values)))


def _minimise(rows: SparseRows, labels: Tensor, features: int, classes: int) -> tuple[Tensor, Tensor]:
    """Weights and biases by L-BFGS from zero. The matrix is also stored transposed, for fast products in both ways."""
    texts = np.repeat(np.arange(len(labels)), np.diff(rows.starts.numpy(), append=len(rows.columns)))
    order = np.argsort(rows.columns.numpy(), kind="stable")
    transposed = _rows(
        rows.columns.numpy()[order].astype(np.int64),
        texts[order].astype(np.int32),
        rows.values.numpy()[order],
        features,
    )
    weights, bias = (torch.zeros(*shape, requires_grad=True) for shape in ((features, classes), (classes,)))
    truth = F.one_hot(labels, classes).float()
    decay = 1 / (ERROR_WEIGHT * len(labels))

    @torch.no_grad()
    def closure() -> Tensor:
        logs = (rows.times(weights) + bias).log_softmax(-1)
        residual = (logs.exp() - truth) / len(labels)
        weights.grad, bias.grad = transposed.times(residual) + decay * weights, residual.sum(0)
        return -(logs * truth).sum() / len(labels) + decay / 2 * (weights * weights).sum()

    search = torch.optim.LBFGS(
        [weights, bias],
        max_iter=MAX_ITERATIONS,
        max_eval=2 * MAX_ITERATIONS,
        history_size=10,
        line_search_fn="strong_wolfe",
    )
    search.step(closure)  # type: ignore[no-untyped-call]
    return weights.detach(), bias.detach()
