"""What a search returns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from torch import Tensor


class Hypothesis(NamedTuple):
    """One text for a sentence.

    tokens hold neither sos nor eos nor the prefix; log_probabilities are the model's own for each of them and for the
    end token; score = sum(log_probabilities) / len(log_probabilities)^α. finished says whether the model ended it or
    the length limit did. attention (steps, S) has a row for each log-probability; path says which place of the beam,
    or of its group, it held at each of these steps, 0 the first chosen, and for the end which place that extends.
    missing are the numbers of the required phrases that it lacks: the limit left no room for them.
    """

    tokens: tuple[int, ...]
    score: float
    log_probabilities: tuple[float, ...]
    finished: bool
    attention: Tensor | None = None
    path: tuple[int, ...] = ()
    missing: tuple[int, ...] = ()


def best_first(hypotheses: Iterable[Hypothesis]) -> list[Hypothesis]:
    """Finished ones first, each kind by score: a text cut off at the limit is not measured against a whole one. Among
    these, one that says more of what is required comes first."""
    return sorted(hypotheses, key=lambda found: (not found.finished, len(found.missing), -found.score))
