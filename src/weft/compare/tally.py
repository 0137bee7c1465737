"""The sums that each example adds to the scores of a run, so that any choice of examples can be scored.

N rows, K sums of a row. A score is a function of the sum over rows, the one that an evaluation uses (`tasks.Scores`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.data import BadLines, Record
from weft.evaluate import evaluate_each
from weft.run import Run
from weft.tasks import encode_evaluation
from weft.tasks.results import Numbers, add_drawn


@dataclass(frozen=True)
class Tally:
    """Sums (N, K), the number of the record that each row comes from (N,), and the scores of a sum (K,). `details` are
    those of an evaluation."""

    numbers: Numbers
    records: NDArray[np.int64]
    score: Callable[[Numbers], dict[str, float]]
    details: dict[str, Any] = field(default_factory=dict)
    score_drawn: Callable[[Numbers, Numbers], dict[str, float]] | None = None
    """The scores of rows that are drawn so many times each, where they do not follow from sums."""

    @property
    def shown(self) -> tuple[str, ...]:
        """The names of the scores that mean something for the data; empty where all do."""
        return tuple(self.details.get("shown", ()))

    def metrics(self) -> dict[str, float]:
        return self.drawn(np.ones(len(self.numbers)))

    def drawn(self, times: Numbers) -> dict[str, float]:
        """The scores of the rows, each drawn so many times (N,)."""
        if self.score_drawn is None:
            return self.score(add_drawn(self.numbers, times))
        return self.score_drawn(self.numbers, times)

    def by_record(self) -> Tally:
        """A row for each record: the pieces of a text that was cut become one example again."""
        starts = np.flatnonzero(np.diff(self.records, prepend=-1))
        return replace(self, numbers=np.add.reduceat(self.numbers, starts), records=np.arange(len(starts)))


def tally(run: Run, path: str | list[str]) -> Tally:
    """Evaluate the run on each example of a file, decoded as its configuration says."""
    return tally_records(run, run.task.read(path, run.config.data, BadLines(skip=False)))


def tally_records(run: Run, records: Iterable[Record]) -> Tally:
    """Evaluate the run on each of some examples."""
    task = run.task
    examples = encode_evaluation(task, records)
    scores, sums = evaluate_each(task, run.model, examples, decode=run.config.decode)
    return Tally(sums, task.record_of_row(examples), scores.score, scores.details(), scores.score_drawn)
