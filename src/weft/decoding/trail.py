"""What a search has written, as back pointers: nothing is copied when hypotheses fork, move or end.

At each step the model reads N rows; each of the M candidates made from them extends one row by one token. Some
candidates become the rows of the next step, some are ends. A candidate's text is found by walking back.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Written(NamedTuple):
    """One step: tokens and log-probabilities (M,) of the candidates, the row (M,) that each extends, the candidate of
    the step before (N,) that each row was, and attention (N, S)."""

    tokens: Tensor
    log_probabilities: Tensor
    rows: Tensor
    origins: Tensor
    attention: Tensor | None


class End(NamedTuple):
    """Where a hypothesis stops: candidate `candidate` of step `step`."""

    sentence: int
    step: int
    candidate: int
    finished: bool


class Path(NamedTuple):
    """A hypothesis read back, first step first, the end token included."""

    tokens: list[int]
    log_probabilities: list[float]
    attention: Tensor | None


class Trail:
    """The steps of one search."""

    def __init__(self) -> None:
        self._written: list[Written] = []
        self._lists: list[tuple[list[int], list[float], list[int], list[int]]] = []

    def add(self, written: Written) -> None:
        """Note one step."""
        self._written.append(written)

    def read(self, step: int, candidate: int, *, first: int) -> Path:
        """The path to a candidate of a step, from step `first` on."""
        tokens, log_probabilities, attention = [], [], []
        for number in range(step, first - 1, -1):
            written = self._written[number]
            all_tokens, all_log_probabilities, rows, origins = self._list(number)
            row = rows[candidate]
            tokens.append(all_tokens[candidate])
            log_probabilities.append(all_log_probabilities[candidate])
            if written.attention is not None:
                attention.append(written.attention[row])
            candidate = origins[row]
        stacked = torch.stack(attention[::-1]) if attention else None
        return Path(tokens[::-1], log_probabilities[::-1], stacked)

    def _list(self, step: int) -> tuple[list[int], list[float], list[int], list[int]]:
        """A step as Python numbers, moved off the device once, after the search."""
        for number in range(len(self._lists), step + 1):
            tokens, log_probabilities, rows, origins, _ = self._written[number]
            self._lists.append((tokens.tolist(), log_probabilities.tolist(), rows.tolist(), origins.tolist()))
        return self._lists[step]
