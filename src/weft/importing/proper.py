"""Checks that the probabilities of an ARPA file are probabilities: those of all words after a context sum to one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np
import torch

from weft.errors import DataError
from weft.models import NgramModel
from weft.models.ngram import Arpa

SAMPLED_CONTEXTS: Final = 100
"""Contexts of each order that are checked, besides as many with the largest backoffs."""

SAMPLED_PROBABILITIES: Final = 20_000_000
"""Probabilities that are computed for the contexts of each order: a large vocabulary has fewer contexts checked."""

TOLERATED: Final = 0.1
"""The distance of a sum from one that rounding and pruning explain; a file beyond it is named."""

MAX_SUM: Final = 2.0
"""A file with a larger sum is damaged, and is refused."""


class ContextSum(NamedTuple):
    """The sum of the probabilities of all words after a context, and the line of the context in the file."""

    sum: float
    context: str
    line: int


def check_sums(arpa: Arpa, model: NgramModel, ids: Mapping[str, int]) -> str | None:
    """Return a warning if the probabilities after some sampled context do not sum to one; raise a DataError if they sum
    to more than `MAX_SUM`."""
    worst = max(_sums(arpa, model, ids), key=lambda found: abs(found.sum - 1))
    if abs(worst.sum - 1) <= TOLERATED:
        return None
    after = f'after "{worst.context}"' if worst.context else "of single words"
    what, where = f"the probabilities {after} sum to {worst.sum:.3g}, not to 1", f"{arpa.path}:{worst.line}"
    if worst.sum > MAX_SUM:
        raise DataError(what, where=where, cure="a backoff or a probability is wrong: write the model again")
    return f"{where}: {what}; perplexities do not compare with those of other models"


def _sums(arpa: Arpa, model: NgramModel, ids: Mapping[str, int]) -> Iterator[ContextSum]:
    """The sums after sampled contexts of each length, the empty one first."""
    numbers = np.array([ids[word] for word in arpa.words], dtype=np.int64)
    most = max(1, min(SAMPLED_CONTEXTS, SAMPLED_PROBABILITIES // model.vocabulary))
    yield ContextSum(_sum(model, []), "", int(arpa.grams[0].lines[0]))
    for grams in arpa.grams[:-1]:
        spread = np.linspace(0, len(grams.lines) - 1, num=min(most, len(grams.lines)), dtype=np.int64)
        largest = np.argsort(-grams.backoffs, kind="stable")[:most]
        for entry in np.unique(np.concatenate([spread, largest])).tolist():
            words = grams.words[entry]
            named = " ".join(arpa.words[word] for word in words)
            yield ContextSum(_sum(model, numbers[words].tolist()), named, int(grams.lines[entry]))


def _sum(model: NgramModel, context: list[int]) -> float:
    """The sum of the probabilities of all words after a context of these tokens."""
    nodes = model.start(None, torch.zeros(1)) if not context else model(torch.tensor([context]))[:, -1]
    return float(model.output(nodes).double().exp().sum())
