"""The results of a task: one answer, and the running sums of an evaluation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from weft.metrics import LossTally
from weft.tasks.sections import Tree

Numbers = NDArray[np.float64]
"""Sums (K,), or those of each of N examples (N, K)."""


class Prediction(ABC):
    """One answer: `str()` is what a terminal shows, `record()` what `--json` writes."""

    repeats: ClassVar[tuple[str, ...]] = ("text", "second", "steps", "words")
    """The fields of `record()` that repeat the input: a table that has the input already leaves them out."""

    @abstractmethod
    def __str__(self) -> str: ...

    @abstractmethod
    def record(self) -> Tree: ...

    def line(self, *, probabilities: bool = False) -> str:
        """The answer in one line of plain text, its parts separated by tabs."""
        return str(self)

    def cells(self, name: str, *, probabilities: bool = False) -> Tree:
        """The answer as cells of a table, by their columns; `name` is the column of the answer itself."""
        return {name: str(self)}

    @property
    def shortcoming(self) -> str | None:
        """The shortcoming of the answer, with a cure, printed after the number of such answers; None if it is whole."""
        return None


def show_number(value: float) -> str:
    """A number of a table: six digits, and from a million on all those before the point."""
    return f"{value:.0f}" if 999_999.5 <= abs(value) < 1e15 else f"{value:.6g}"


class ScoredText(ABC):
    """The probability that a model gives to a text, or to the tags of one: what `weft score` shows."""

    headings: ClassVar[tuple[str, ...]]
    """The columns of the table that a terminal shows."""

    @property
    @abstractmethod
    def title(self) -> str:
        """The line above the table."""

    @abstractmethod
    def rows(self) -> list[tuple[str, ...]]:
        """A row of the table for each token."""

    @abstractmethod
    def record(self) -> Tree:
        """The record that `--json` writes."""

    @abstractmethod
    def add_to(self, tally: LossTally) -> None:
        """Add the log-probability and the number of its tokens to the sums over all texts."""


class Scores(ABC):
    """The running sums of one evaluation, and the metrics that follow from them.

    The sums of several examples are the sum of those of each. So `weft compare` can score any choice of examples with
    the metrics of an evaluation.
    """

    @abstractmethod
    def sums(self) -> Sequence[float] | Numbers:
        """The numbers (K,) that the metrics follow from."""

    @abstractmethod
    def score(self, sums: Numbers) -> dict[str, float]:
        """The metrics of any such sums (K,)."""

    @abstractmethod
    def merge(self, other: Any) -> None:
        """Add everything that other scores of the same kind have counted."""

    def score_rows(self, rows: Numbers) -> dict[str, float]:
        """The metrics of some examples with these sums each (N, K), for metrics that are no function of their sum."""
        return self.score(rows.sum(0))

    @property
    def sums_suffice(self) -> bool:
        """Whether all metrics follow from the sum over examples, so that `score_rows` is not needed."""
        return type(self).score_rows is Scores.score_rows

    def metrics(self) -> dict[str, float]:
        """The metrics of everything that was added."""
        return self.score(np.asarray(self.sums(), dtype=np.float64))

    def details(self) -> Tree:
        """Explanations of the metrics for a report: tables, signatures, units. `shown` names those worth showing."""
        return {}
