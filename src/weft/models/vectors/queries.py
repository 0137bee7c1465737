"""Questions to word vectors: the similarity of words, the nearest words, and analogies.

similarity(a, b) = cos(v_a, v_b)
a is to b as c is to …  = argmax_d cos(v_d, v_b/|v_b| - v_a/|v_a| + v_c/|v_c|)           d none of a, b, c
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.models.vectors.model import WordVectors

ANALOGIES_AT_ONCE: Final = 128
"""Analogies whose similarities with all words are in memory together."""


class Neighbour(NamedTuple):
    """A word, and the cosine of the angle between its vector and the one in question."""

    word: str
    similarity: float


class VectorTable(Protocol):
    """Words with a vector each: word vectors, or the embeddings of a network."""

    @property
    def words(self) -> Sequence[str]:
        """The word of each row."""

    @property
    def counts(self) -> Tensor:
        """(V,) occurrences of each word; those with 0 are no neighbours."""

    def normalized(self) -> Tensor:
        """The vector of every word at length 1 (V, D)."""


def nearest(table: VectorTable, target: Tensor, *, n: int, without: Collection[int] = ()) -> list[Neighbour]:
    """The n words nearest to a vector (D,), except the numbers in `without` and words that never occurred."""
    scores = table.normalized() @ F.normalize(target, dim=0)
    scores[table.counts == 0] = -torch.inf
    scores[list(without)] = -torch.inf
    best, numbers = scores.topk(min(n, int((scores > -torch.inf).sum())))
    return [Neighbour(table.words[k], score) for k, score in zip(numbers.tolist(), best.tolist(), strict=True)]


def solve_analogies(model: WordVectors, questions: Sequence[Sequence[int]]) -> list[int]:
    """The number of the fourth word for each three: the first is to the second as the third is to it."""
    table, found = model.normalized(), list[int]()
    for first in range(0, len(questions), ANALOGIES_AT_ONCE):
        known = torch.tensor(questions[first : first + ANALOGIES_AT_ONCE])
        a, b, c = (table[known[:, place]] for place in range(3))
        scores = (b - a + c) @ table.T
        scores[:, model.counts == 0] = -torch.inf
        found += scores.scatter_(1, known, -torch.inf).argmax(1).tolist()
    return found
