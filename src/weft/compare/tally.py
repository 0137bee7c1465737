"""The sums that each example adds to the scores of a run, so that any choice of examples can be scored.

N rows, K sums of a row. A score is a function of the sum over rows, the one that an evaluation uses (`tasks.Scores`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.config.schema import positions
from weft.data import BadLines, Record
from weft.evaluate import evaluate_each
from weft.run import Run
from weft.tasks import encode_evaluation
from weft.tasks.results import Numbers


@dataclass(frozen=True)
class Tally:
    """Sums (N, K), the number of the record that each row comes from (N,), and the scores of a sum (K,). `details` are
    those of an evaluation."""

    numbers: Numbers
    records: NDArray[np.int64]
    score: Callable[[Numbers], dict[str, float]]
    score_rows: Callable[[Numbers], dict[str, float]] | None = None
    """The scores of some rows (N, K), where they are no function of their sum."""
    details: dict[str, Any] = field(default_factory=dict)
    rows_overlap: bool = False
    """Whether the rows of a record share what they were measured on, so that none is drawn alone."""

    @property
    def shown(self) -> tuple[str, ...]:
        """The names of the scores that mean something for the data; empty where all do."""
        return tuple(self.details.get("shown", ()))

    def metrics(self, times: NDArray[np.int64] | None = None) -> dict[str, float]:
        """The scores of all rows, or of each row so many times (N,).

        The loss of a text that a model of counts gives no probability is infinite; a row that is drawn no time adds
        nothing.
        """
        if self.score_rows is not None:
            return self.score_rows(self.numbers if times is None else np.repeat(self.numbers, times, axis=0))
        if times is None:
            return self.score(self.numbers.sum(0))
        drawn = times > 0
        return self.score(times[drawn].astype(np.float64) @ self.numbers[drawn])

    def by_record(self) -> Tally:
        """A row for each record: the pieces of a text that was cut become one example again."""
        starts = np.flatnonzero(np.diff(self.records, prepend=-1))
        return replace(self, numbers=np.add.reduceat(self.numbers, starts), records=np.arange(len(starts)))


def tally(run: Run, path: str | list[str]) -> Tally:
    """Evaluate the run on each example of a file, decoded as its configuration says."""
    return tally_records(run, run.task.read(path, run.config.data, BadLines(skip=False)))


def tally_records(run: Run, read: Iterable[Record]) -> Tally:
    """Evaluate the run on each of some examples."""
    task = run.task
    examples = encode_evaluation(task, read, run.config.data, positions=positions(run.config))
    scores, sums = evaluate_each(task, run.model, examples, decode=run.config.decode)
    rows = None if scores.sums_suffice else scores.score_rows
    records = task.record_of_row(examples)
    return Tally(sums, records, scores.score, rows, scores.details(), task.rows_overlap)
