"""Accuracy and F1 of one label per row, from a table of gold against predicted labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from weft.metrics.scores import ClassScore, class_score, ratio


class Confusion:
    """Counts each pair of gold and predicted label. Nothing added gives 0 everywhere.

    A gold label that the model never learned is given as -1: no prediction can match it, so it counts as wrong
    in the accuracy and against the precision of what was predicted, and `unseen` says how many there were.
    """

    def __init__(self, labels: Sequence[str]) -> None:
        self.labels = tuple(labels)
        # The last row takes the unseen gold labels, so that -1 is an index like any other.
        self._counts = np.zeros((len(self.labels) + 1, len(self.labels)), dtype=np.int64)

    def add(self, gold: Sequence[int], predicted: Sequence[int]) -> None:
        """Count rows: gold (N) in -1 … L-1, predicted (N) in 0 … L-1."""
        if len(gold) != len(predicted):
            raise ValueError(f"{len(gold)} gold labels for {len(predicted)} predictions")
        rows, columns = np.asarray(gold, dtype=np.int64), np.asarray(predicted, dtype=np.int64)
        _check_range("gold", rows, low=-1, high=len(self.labels))
        _check_range("predicted", columns, low=0, high=len(self.labels))
        np.add.at(self._counts, (rows, columns), 1)

    def merge(self, other: Confusion) -> None:
        """Add everything that another table of the same labels has counted."""
        self._counts += other._counts

    def sums(self) -> npt.NDArray[np.float64]:
        """The numbers (3L + 1) that accuracy and F1 follow from: for each label how often it is correct, in the gold
        data and predicted, and last how many gold labels are unseen."""
        known = self._counts[:-1]
        columns = (known.diagonal(), known.sum(axis=1), self._counts.sum(axis=0), [self.unseen])
        return np.concatenate(columns).astype(np.float64)

    @staticmethod
    def score(sums: npt.NDArray[np.float64]) -> dict[str, float]:
        """Accuracy and macro F1 of such sums.

        F1 is the mean over the labels that occur in the gold data or among the predictions. Labels that training never
        saw count as one more, of which nothing is right.
        """
        correct, gold, predicted = sums[:-1].reshape(3, -1)
        unseen, there = float(sums[-1]), gold + predicted > 0
        each = (2 * correct[there] / (gold + predicted)[there]).tolist()
        return {
            "accuracy": ratio(float(correct.sum()), float(gold.sum()) + unseen),
            "f1": ratio(sum(each), len(each) + (unseen > 0)),
        }

    @property
    def matrix(self) -> npt.NDArray[np.int64]:
        """(L, L) counts, gold by predicted, of the labels the model knows."""
        return self._counts[:-1].copy()

    @property
    def count(self) -> int:
        """How many rows were added."""
        return int(self._counts.sum())

    @property
    def unseen(self) -> int:
        """How many rows have a gold label that the model does not know."""
        return int(self._counts[-1].sum())

    @property
    def accuracy(self) -> float:
        """Share of rows whose prediction is right."""
        return self.score(self.sums())["accuracy"]

    @property
    def majority(self) -> float:
        """Share of the most frequent gold label: what guessing it every time would reach."""
        return ratio(int(self._counts[:-1].sum(axis=1).max(initial=0)), self.count)

    @property
    def f1(self) -> float:
        """Macro F1."""
        return self.score(self.sums())["f1"]

    @property
    def micro_f1(self) -> float:
        """F1 of all rows together. Each row has one gold and one predicted label, so this is the accuracy."""
        return self.accuracy

    def per_class(self) -> list[ClassScore]:
        """One row for each label, in the order of `labels`."""
        correct, gold = self._counts.diagonal(), self._counts[:-1].sum(axis=1)
        predicted = self._counts.sum(axis=0)
        return [
            class_score(label, correct=int(correct[i]), gold=int(gold[i]), predicted=int(predicted[i]))
            for i, label in enumerate(self.labels)
        ]

    def occurring(self) -> list[ClassScore]:
        """The rows of the labels that are in the gold data or among the predictions."""
        there = self._counts[:-1].sum(axis=1) + self._counts.sum(axis=0) > 0
        return [row for row, shown in zip(self.per_class(), there, strict=True) if shown]

    @property
    def correct(self) -> int:
        """How many predictions are right."""
        return int(self._counts.diagonal().sum())


def _check_range(what: str, values: npt.NDArray[np.int64], *, low: int, high: int) -> None:
    """NumPy would take a negative index for one counted from the end."""
    if values.size and (values.min() < low or values.max() >= high):
        raise ValueError(f"{what} labels from {values.min()} to {values.max()} do not all lie in {low} … {high - 1}")
