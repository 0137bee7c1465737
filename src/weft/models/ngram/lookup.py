"""Looking up n-grams in sorted tables, many at once.

The context of a token is a row of nodes (order,): node m is the index of the last m tokens among the m-grams, so node 0
is 0, the empty context. It is UNSEEN where these m tokens were never seen together, and SHORT where fewer tokens were
read. A row of nodes is all that a model needs to know of a text.       N rows, M positions, V words, K the order
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import torch
from torch import Tensor

from weft.models.ngram.tables import NEVER, ZERO, producible

UNSEEN: Final = -1
SHORT: Final = -2


class Rows(NamedTuple):
    """The tables of one order as tensors: see `weft.models.ngram.tables.OrderTable`."""

    keys: Tensor
    log_probabilities: Tensor
    backoffs: Tensor


class NgramTables:
    """The tables of all orders, for a vocabulary of V words; `backs_off` is that of the smoothing."""

    def __init__(self, orders: Sequence[Rows], vocabulary: int, *, backs_off: bool) -> None:
        self.orders, self.vocabulary, self.backs_off = orders, vocabulary, backs_off
        self.uniform = -math.log(max(1, int(producible(vocabulary).sum())))

    def find(self, m: int, parents: Tensor, words: Tensor) -> Tensor:
        """The index among the m-grams of a context (N,) of m - 1 words followed by a word (N,); else UNSEEN."""
        keys = self.orders[m - 1].keys
        if m == 1:
            return words
        if not len(keys):
            return torch.full_like(words, UNSEEN)
        wanted = parents * self.vocabulary + words
        places = torch.searchsorted(keys, wanted).clamp_(max=len(keys) - 1)
        return torch.where((parents >= 0) & (keys[places] == wanted), places, UNSEEN)

    def follow(self, tokens: Tensor, nodes: Tensor) -> Tensor:
        """tokens (N,) after contexts (N, K) -> the contexts (N, K) that they make."""
        after = torch.empty_like(nodes)
        after[:, 0] = 0
        for m in range(1, nodes.size(1)):
            before = nodes[:, m - 1]
            after[:, m] = torch.where(before == SHORT, SHORT, self.find(m, before, tokens))
        return after

    def read(self, tokens: Tensor) -> Tensor:
        """tokens (B, T) of whole texts -> the contexts (B, T, K) after each token."""
        order = len(self.orders)
        nodes = torch.full((*tokens.shape, order), SHORT)
        nodes[..., 0] = 0
        for m in range(1, min(order, tokens.size(1) + 1)):
            before, words = nodes[:, : tokens.size(1) - 1, m - 1], tokens[:, 1:]
            if m == 1:
                nodes[..., 1] = tokens
            else:
                nodes[:, 1:, m] = torch.where(before == SHORT, SHORT, self.find(m, before, words))
        return nodes

    def score(self, nodes: Tensor, words: Tensor) -> Tensor:
        """The log-probability (M,) of a word (M,) after each context (M, K)."""
        found = self.orders[0].log_probabilities[words]
        for m in range(1, nodes.size(1)):
            before = nodes[:, m]
            place, logs = self.find(m + 1, before, words), self.orders[m].log_probabilities
            other = self._without_entry(m, before, found)
            found = torch.where(place >= 0, _pick(logs, place), other)
        return found.masked_fill_(found < ZERO / 2, -torch.inf)

    def score_all(self, nodes: Tensor) -> Tensor:
        """The log-probabilities (N, V) of all words after each context (N, K)."""
        found = self.orders[0].log_probabilities.expand(len(nodes), -1).clone()
        for m in range(1, nodes.size(1)):
            before = nodes[:, m]
            found = self._without_entry(m, before[:, None], found)
            rows, entries = self._entries(m + 1, before)
            keys, logs, _ = self.orders[m]
            found[rows, keys[entries] % self.vocabulary] = logs[entries]
        found[:, [token for token in NEVER if token < self.vocabulary]] = -torch.inf
        return found.masked_fill_(found < ZERO / 2, -torch.inf)

    def _without_entry(self, m: int, before: Tensor, lower: Tensor) -> Tensor:
        """The log-probability of a word that has no entry after a context of m words, given that after the shorter
        one."""
        seen, backoffs = before >= 0, self.orders[m - 1].backoffs
        weights = _pick(backoffs, before)
        if self.backs_off:
            return lower + weights
        return torch.where(before == SHORT, lower, torch.where(seen, weights, self.uniform))

    def _entries(self, m: int, parents: Tensor) -> tuple[Tensor, Tensor]:
        """The m-grams that extend contexts (N,) of m - 1 words: the row of each (E,), and its index (E,)."""
        keys = self.orders[m - 1].keys
        seen = (parents >= 0).nonzero().squeeze(1)
        first = parents[seen] * self.vocabulary
        begins = torch.searchsorted(keys, first)
        counts = torch.searchsorted(keys, first + self.vocabulary) - begins
        rows = seen.repeat_interleave(counts)
        before = counts.cumsum(0) - counts
        return rows, torch.arange(len(rows)) + (begins - before).repeat_interleave(counts)


def _pick(numbers: Tensor, places: Tensor) -> Tensor:
    """The numbers (E,) at some places, and 0 at those below 0."""
    if not len(numbers):
        return torch.zeros(places.shape, dtype=numbers.dtype)
    return torch.where(places >= 0, numbers[places.clamp(min=0)], 0.0)
