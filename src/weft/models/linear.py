"""A linear classifier on n-grams: what a network has to beat.

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

from weft.models.ngrams import BITS, Counts, Integers, count_ngrams

STRENGTH = 3.0
"""C: what an error costs beside the size of the weights."""

ITERATIONS = 50
"""Most iterations of L-BFGS; the accuracy hardly changes after half as many."""

SHORT_CHARACTERS = 300
"""Mean length of texts up to which n-grams of characters are counted too: longer ones have words enough."""

WORK, SHORT_WORK = 40_000_000, 4_000_000
"""Characters of all texts together, longer texts and short ones; a random part of more is fitted on."""

MOST_WEIGHTS = 1 << 22
"""Weights of all classes together; the rarest n-grams are left out."""


class Rows(NamedTuple):
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
    """Weights (D, C) and biases (C) of the n-grams that `places` numbers, -1 for those never learned."""

    places: NDArray[np.int32]
    idf: NDArray[np.float32]
    weights: Tensor
    bias: Tensor
    characters: bool
    fitted: int
    """Texts that it was fitted on."""

    def predict(self, texts: Sequence[str]) -> Integers:
        """The likeliest class of each text (N)."""
        if not texts:
            return np.zeros(0, dtype=np.int64)
        rows = _weigh(count_ngrams(texts, characters=self.characters), self.places, self.idf)
        found: Integers = (rows.times(self.weights) + self.bias).argmax(-1).numpy()
        return found


def fit_linear(examples: Iterable[tuple[str, int]], classes: int, *, seed: int = 0) -> LinearClassifier:
    """The classifier of texts with their classes in 0 … `classes` - 1."""
    texts, labels = _sample(examples, classes, seed)
    characters = sum(map(len, texts)) <= SHORT_CHARACTERS * len(texts)
    counts = count_ngrams(texts, characters=characters)
    places, idf = _choose(counts, classes)
    rows = _weigh(counts, places, idf)
    weights, bias = _minimise(rows, torch.from_numpy(labels), len(idf), classes)
    return LinearClassifier(places, idf, weights, bias, characters, len(texts))


def _sample(examples: Iterable[tuple[str, int]], classes: int, seed: int) -> tuple[list[str], Integers]:
    """All texts if their work is within bounds, else a random part: whenever there is too much, half of it is kept."""
    random, share = np.random.default_rng(seed), 1.0
    kept: list[tuple[float, str, int]] = []
    seen = characters = work = 0
    for text, label in examples:
        chance = random.random()
        seen, characters = seen + 1, characters + len(text)
        if chance >= share:
            continue
        kept.append((chance, text, label))
        work += max(len(text), classes)
        while work > (SHORT_WORK if characters <= SHORT_CHARACTERS * seen else WORK) and len(kept) > 1:
            share /= 2
            kept = [item for item in kept if item[0] < share]
            work = sum(max(len(text), classes) for _, text, _ in kept)
    return [text for _, text, _ in kept], np.array([label for *_, label in kept], dtype=np.int64)


def _choose(counts: Counts, classes: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The n-grams that are in two texts or more, the most frequent of them: their places and their idf."""
    texts = np.bincount(counts.columns, minlength=1 << BITS)
    most = max(1, MOST_WEIGHTS // classes)
    least = 2
    if np.count_nonzero(texts >= least) > most:
        least = int(np.partition(texts, -most)[-most]) + 1
    chosen = np.flatnonzero(texts >= least)
    places = np.full(1 << BITS, -1, dtype=np.int32)
    places[chosen] = np.arange(len(chosen))
    return places, (1 + np.log(len(counts.starts) / (1 + texts[chosen]))).astype(np.float32)


def _weigh(counts: Counts, places: NDArray[np.int32], idf: NDArray[np.float32]) -> Rows:
    """tf-idf, each text of length 1."""
    columns = places[counts.columns]
    known = columns >= 0
    size = len(counts.starts) - 1
    texts = np.repeat(np.arange(size), np.diff(counts.starts))[known]
    columns = columns[known]
    values = (1 + np.log(counts.values[known])) * idf[columns]
    norms = np.sqrt(np.bincount(texts, values * values, minlength=size))
    values = (values / norms[texts]).astype(np.float32)
    return _rows(texts, columns, values, size)


def _rows(rows: Integers, columns: NDArray[np.int32], values: NDArray[np.float32], size: int) -> Rows:
    """The matrix of `size` rows with these entries, ordered by their row."""
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=size))[:-1]]).astype(np.int32)
    return Rows(*map(torch.from_numpy, (starts, columns, values)))


def _minimise(rows: Rows, labels: Tensor, features: int, classes: int) -> tuple[Tensor, Tensor]:
    """Weights and biases by L-BFGS from zero. Both products with the matrix go along its memory."""
    texts = np.repeat(np.arange(len(labels)), np.diff(rows.starts.numpy(), append=len(rows.columns)))
    order = np.argsort(rows.columns.numpy(), kind="stable")
    turned = _rows(
        rows.columns.numpy()[order].astype(np.int64),
        texts[order].astype(np.int32),
        rows.values.numpy()[order],
        features,
    )
    weights, bias = (torch.zeros(*shape, requires_grad=True) for shape in ((features, classes), (classes,)))
    truth = F.one_hot(labels, classes).float()
    decay = 1 / (STRENGTH * len(labels))

    @torch.no_grad()
    def closure() -> Tensor:
        logs = (rows.times(weights) + bias).log_softmax(-1)
        residual = (logs.exp() - truth) / len(labels)
        weights.grad, bias.grad = turned.times(residual) + decay * weights, residual.sum(0)
        return -(logs * truth).sum() / len(labels) + decay / 2 * (weights * weights).sum()

    search = torch.optim.LBFGS(
        [weights, bias], max_iter=ITERATIONS, max_eval=2 * ITERATIONS, history_size=10, line_search_fn="strong_wolfe"
    )
    search.step(closure)  # type: ignore[no-untyped-call]
    return weights.detach(), bias.detach()
