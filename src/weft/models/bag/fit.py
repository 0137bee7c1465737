"""Fits a bag of n-grams to texts with labels or numbers: chooses the n-grams that get weights, then makes updates.

The n-grams of all texts stay in memory, or with very many texts are found again for each part of an epoch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from weft.data import Examples
from weft.data.ragged import numbers_of
from weft.models.bag.characters import Alphabet, Characters, read_characters
from weft.models.bag.ngrams import SparseRows, find_ngrams
from weft.models.bag.sgd import Labels, LinearUpdates
from weft.models.fitting import Fit, FitOptions, FitStep

if TYPE_CHECKING:
    from weft.models.bag.model import Bag

PART_CHARACTERS: Final = 1 << 25
"""Characters of the texts of one part of an epoch."""

MAX_SHORT_PARTS, MIN_PART_TEXTS = 20, 500
"""An epoch has so many parts, or fewer with fewer texts than this in a part, so that its progress is seen."""

MEMORY_NGRAMS: Final = 1 << 27
"""N-grams that are kept in memory, with 8 bytes each."""

SHARED_NGRAMS: Final = 1 << 26
"""N-grams of an epoch from which on threads make updates side by side. With fewer one thread needs a few seconds, and
the same training gives the same model."""

RANDOM_RANGE: Final = 1.0
"""Vectors of n-grams begin with numbers between plus and minus this, divided by their size."""

VECTOR_RATE: Final = 0.25
"""The share of the rate that is used with vectors, whose updates are larger because they multiply each other."""


class LabelledTexts(Protocol):
    """Texts with their labels."""

    sizes: NDArray[np.int64]
    """The characters of each."""
    labels: Labels

    def read(self, rows: NDArray[np.int64]) -> Characters:
        """The characters of some texts."""


class PlainTexts:
    """Texts and their labels."""

    def __init__(self, texts: Sequence[str], labels: Labels) -> None:
        self.texts, self.sizes = texts, np.array([len(text) for text in texts], dtype=np.int64)
        self.labels = labels

    def read(self, rows: NDArray[np.int64]) -> Characters:
        return read_characters([self.texts[row] for row in rows])


class TokenTexts:
    """Texts as tokens of an alphabet, with their labels or numbers."""

    def __init__(self, examples: Examples, alphabet: Alphabet) -> None:
        self.tokens, self.alphabet = examples.columns["tokens"], alphabet
        self.sizes = self.tokens.lengths
        if "numbers" in examples.columns:
            targets = examples.columns["numbers"]
            self.labels = only_targets(numbers_of(targets.join(np.arange(len(targets)))))
            return
        labels = examples.columns["labels"]
        numbers = labels.join(np.arange(len(labels))).astype(np.int64)
        self.labels = Labels(np.concatenate([[0], np.cumsum(labels.lengths)]), numbers)

    def read(self, rows: NDArray[np.int64]) -> Characters:
        return self.alphabet.read(self.tokens.join(rows), self.sizes[rows])


def list_labels(answers: Sequence[Sequence[int]]) -> Labels:
    """The labels of texts, given the numbers of those of each."""
    starts = np.concatenate([[0], np.cumsum([len(numbers) for numbers in answers], dtype=np.int64)])
    return Labels(starts, np.array([number for numbers in answers for number in numbers], dtype=np.int64))


def only_targets(targets: NDArray[np.float32]) -> Labels:
    """No labels, and the number of each text."""
    return Labels(np.zeros(len(targets) + 1, dtype=np.int64), np.zeros(0, dtype=np.int64), targets)


class BagFit(Fit):
    """`total` parts, of which `every` make an epoch; a part is one update for each of its texts."""

    def __init__(self, model: Bag, texts: LabelledTexts, options: FitOptions) -> None:
        self.model, self.texts, self.options = model, texts, options
        parts = min(MAX_SHORT_PARTS, len(texts.sizes) // MIN_PART_TEXTS)
        self.every = max(1, parts, -(-int(texts.sizes.sum()) // PART_CHARACTERS))
        self.total = options.steps or options.epochs * self.every
        ngrams = self._choose()
        self._begin()
        self.rows = self._find(np.arange(len(texts.sizes))) if ngrams <= MEMORY_NGRAMS else None
        self.threads = options.threads if ngrams >= SHARED_NGRAMS else 1
        scale = VECTOR_RATE if model.output is not None else 1.0
        self.rate = scale * options.rate

    def step(self, number: int) -> FitStep:
        epoch, part = divmod(number - 1, self.every)
        order = np.random.default_rng([self.options.seed, epoch]).permutation(len(self.texts.sizes))
        rows = order[len(order) * part // self.every : len(order) * (part + 1) // self.every]
        rates = self.rate * (1 - (number - 1) / self.total), self.rate * (1 - number / self.total)
        labels, model = self.texts.labels, self.model
        weights, many = self.options.label_weights, self.options.many_labels
        # The tensors are those of the model at this time: a checkpoint may have brought new ones.
        updates = LinearUpdates(model.weights, model.output, model.bias, weights, many)
        if self.rows is not None:
            loss = updates.run(self.rows, labels, rows, rates=rates, threads=self.threads)
        else:
            found, own = self._find(rows), _pick(labels, rows)
            loss = updates.run(found, own, np.arange(len(rows)), rates=rates, threads=self.threads)
        return FitStep(int(self.texts.sizes[rows].sum()), loss, rates[0])

    def _choose(self) -> int:
        """Choose the n-grams that get weights: the most frequent of those in enough texts. Returns how many n-grams
        the texts have."""
        config, model = self.model.config, self.model
        texts = np.zeros(config.buckets, dtype=np.int32)
        count = 0
        for rows in _parts(self.texts.sizes):
            columns = find_ngrams(self.texts.read(rows), config.kinds).columns
            count += len(columns)
            texts += np.bincount(columns, minlength=config.buckets).astype(np.int32)
        least = min(config.min_count, max(1, int(texts.max())))  # of a few texts no two may share an n-gram
        chosen = np.flatnonzero(texts >= least)
        if len(chosen) > config.max_ngrams:
            chosen = np.sort(chosen[np.argsort(-texts[chosen], kind="stable")[: config.max_ngrams]])
        model.grow(len(chosen))
        model.buckets.copy_(torch.from_numpy(chosen))
        idf = 1 + np.log((1 + len(self.texts.sizes)) / (1 + texts[chosen]))
        model.idf.copy_(torch.from_numpy(idf))
        return count

    def _begin(self) -> None:
        """Set the biases to the logarithms of the labels' shares, or odds, or to the mean number, and vectors to random
        numbers."""
        model = self.model
        self._set_bias()
        if model.width:
            generator = torch.Generator().manual_seed(self.options.seed % 2**63)
            bound = RANDOM_RANGE / model.width
            model.weights.uniform_(-bound, bound, generator=generator)

    def _set_bias(self) -> None:
        model, targets = self.model, self.texts.labels.targets
        if targets is not None:
            model.prior.fill_(float(targets.mean(dtype=np.float64)))
            model.bias.copy_(model.prior)
            return
        counts = 1.0 + np.bincount(self.texts.labels.numbers, minlength=model.labels)
        absent = len(self.texts.sizes) + 2.0 - counts
        model.prior.copy_(torch.from_numpy(np.log(counts / (absent if self.options.many_labels else counts.sum()))))
        model.bias.copy_(model.prior)
        if (weights := self.options.label_weights) is not None:
            model.bias.add_((weights[1] / weights[0] if self.options.many_labels else weights).log())

    def _find(self, rows: NDArray[np.int64]) -> SparseRows:
        """The weighed n-grams of some texts."""
        kinds, vocabulary = self.model.config.kinds, self.model.vocabulary
        parts = (rows[part] for part in _parts(self.texts.sizes[rows]))
        return SparseRows.join(find_ngrams(self.texts.read(part), kinds, vocabulary) for part in parts)


def _parts(sizes: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """The numbers of texts of these sizes, in order, so many at a time that they have about `PART_CHARACTERS`."""
    part = np.cumsum(sizes) // PART_CHARACTERS
    yield from np.split(np.arange(len(sizes)), np.flatnonzero(np.diff(part)) + 1)


def _pick(labels: Labels, rows: NDArray[np.int64]) -> Labels:
    """The labels of some texts."""
    lengths = labels.starts[rows + 1] - labels.starts[rows]
    starts = np.concatenate([[0], np.cumsum(lengths)])
    places = np.repeat(labels.starts[rows] - starts[:-1], lengths) + np.arange(starts[-1])
    return Labels(starts, labels.numbers[places], None if labels.targets is None else labels.targets[rows])
