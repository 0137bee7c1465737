"""The result of a search."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from torch import Tensor


class Hypothesis(NamedTuple):
    """One text for a sentence.

    tokens are without sos, eos and prefix; log_probabilities are those of the model for each of them and for the end
    token; score = sum(log_probabilities) / len(log_probabilities)^α. finished: whether the model ended it, and not the
    length limit. attention (steps, S) has a row for each log-probability; path is its place in the beam, or in its
    group, at each of these steps, 0 the likeliest, and for the end the place that this extends. missing are the indices
    of the required phrases that it lacks: the limit came too early for them. stopped: whether it ends with a token that
    completes a stop string; it has no end token then. rank is what the search has maximised, where that is not the
    score: the same of log-probabilities with penalties.
    """

    tokens: tuple[int, ...]
    score: float
    log_probabilities: tuple[float, ...]
    finished: bool
    attention: Tensor | None = None
    path: tuple[int, ...] = ()
    missing: tuple[int, ...] = ()
    stopped: bool = False
    rank: float | None = None


def best_first(hypotheses: Iterable[Hypothesis]) -> list[Hypothesis]:
    """Sort finished texts first, as the score of a text cut off at the limit is not comparable; then those that lack
    fewer required phrases; then by what the search has maximised."""
    return sorted(hypotheses, key=lambda found: (not found.finished, len(found.missing), -_rank(found)))


def _rank(found: Hypothesis) -> float:
    return found.score if found.rank is None else found.rank
