"""Word vectors: skip-gram and CBOW with negative sampling (Mikolov et al., 2013), with character n-grams as an option.

v_w, u_w    the vector of word w as an input, and as an output; with n-grams v_w is the mean of its own row and theirs
skip-gram   maximise  log σ(v_w · u_c) + Σ_k log σ(-v_w · u_k)     for each word w and word c near it, k words of noise
CBOW        the same with the mean of the words near c in place of v_w

The words k are drawn once for all pairs of a window (Ji et al., 2016). V words, D vector size.
"""

from __future__ import annotations

from collections.abc import Sized
from functools import cached_property
from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from weft.data import Examples
from weft.models.fitting import FitOptions, FittedModel
from weft.models.vectors.fit import VectorFit
from weft.models.vectors.settings import VectorSettings
from weft.text.grams import ngram_buckets, word_parts


class Entries(Sized, Protocol):
    """A vocabulary: its size is known before its words are."""

    def tokens(self, ids: range) -> list[str]: ...


class WordVectors(FittedModel):
    """inputs (V + buckets, D), outputs (V, D), and the number of occurrences of each word in the training text (V)."""

    def __init__(self, config: VectorSettings, vocabulary: Entries) -> None:
        super().__init__()
        self.config, self.vocabulary, self.size = config, vocabulary, len(vocabulary)
        rows = self.size + (config.buckets if config.ngrams else 0)
        self.inputs = nn.Parameter(torch.empty(rows, config.embedding), requires_grad=False)
        self.inputs.uniform_(-0.5 / config.embedding, 0.5 / config.embedding)
        self.outputs = nn.Parameter(torch.zeros(self.size, config.embedding), requires_grad=False)
        self.counts: Tensor
        self.register_buffer("counts", torch.zeros(self.size, dtype=torch.long))
        self.updates = 0
        """Parts of the text that it was trained on since it was built: what is computed from older vectors is stale."""
        self._normalized: tuple[tuple[int, int], Tensor] | None = None

    def fit(self, examples: Examples, options: FitOptions) -> VectorFit:
        """Start to train on the column "tokens" of the examples."""
        return VectorFit(self, examples, options)

    def check(self) -> None:
        if bool((self.counts < 0).any()) or not bool((self.counts > 0).any()):
            raise ValueError("counts are not those of words in a text")

    @cached_property
    def words(self) -> list[str]:
        """The entries of the vocabulary."""
        return self.vocabulary.tokens(range(self.size))

    @cached_property
    def parts(self) -> tuple[NDArray[np.int64], NDArray[np.int32]] | None:
        """The rows of `inputs` that each word is the mean of, as `word_parts` lays them out; None without n-grams."""
        config = self.config
        return word_parts(self.words, sizes=config.ngrams, buckets=config.buckets) if config.ngrams else None

    def sums(self, words: Tensor) -> tuple[Tensor, Tensor]:
        """words (N,) -> for each the sum (N, D) of the rows that it is made of, and their number (N, 1)."""
        if self.parts is None:
            return self.inputs[words], torch.ones(len(words), 1)
        starts, rows = self.parts
        chosen = words.numpy()
        counts = starts[chosen + 1] - starts[chosen]
        before = np.cumsum(counts) - counts
        places = np.repeat(starts[chosen] - before, counts) + np.arange(int(counts.sum()))
        bags = torch.from_numpy(rows[places].astype(np.int64)), torch.from_numpy(before)
        return F.embedding_bag(bags[0], self.inputs.detach(), bags[1], mode="sum"), torch.from_numpy(counts)[:, None]

    def vectors(self, words: Tensor) -> Tensor:
        """words (N,) -> vectors (N, D)."""
        sums, counts = self.sums(words)
        return sums / counts

    def table(self) -> Tensor:
        """The vector of every word (V, D)."""
        return self.vectors(torch.arange(self.size))

    def unseen(self, word: str) -> Tensor | None:
        """The vector (D,) of a word that is not in the vocabulary: the mean of its n-grams; None if it has none."""
        config = self.config
        found = ngram_buckets(word, sizes=config.ngrams, buckets=config.buckets) if config.ngrams else []
        return self.inputs[[self.size + bucket for bucket in found]].mean(0) if found else None

    def normalized(self) -> Tensor:
        """The vector of every word at length 1 (V, D); entries that never occurred are 0. Kept until vectors change."""
        state = self.updates, self.inputs._version
        if self._normalized is None or self._normalized[0] != state:
            table = F.normalize(self.table(), dim=1) * (self.counts > 0)[:, None]
            self._normalized = state, table
        return self._normalized[1]
