"""F1 and exact matches of any number of labels per row, from counts.

micro F1 = 2 Σ correct / Σ (gold + predicted)       macro F1 = mean over labels       exact = rows with all right
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from weft.metrics.scores import ClassScore, class_score, ratio


class ManyCounts:
    """For each label how often it is correct, in the gold data, and predicted; rows, and rows with all labels right.

    Gold labels that training never saw count as missed, and as one more label of which nothing is right.
    """

    def __init__(self, labels: Sequence[str]) -> None:
        self.labels = tuple(labels)
        self._counts = np.zeros((3, len(self.labels)), dtype=np.int64)
        self.unseen = self.exact = self.count = 0

    def add(self, gold: npt.NDArray[np.bool_], predicted: npt.NDArray[np.bool_], others: npt.NDArray[np.int64]) -> None:
        """Count rows: gold and predicted (N, C), others (N) the number of unseen gold labels of each."""
        self._counts += np.stack([(gold & predicted).sum(0), gold.sum(0), predicted.sum(0)])
        self.unseen += int(others.sum())
        self.exact += int(((gold == predicted).all(1) & (others == 0)).sum())
        self.count += len(gold)

    def merge(self, other: ManyCounts) -> None:
        """Add everything that another one of the same labels has counted."""
        self._counts += other._counts
        self.unseen, self.exact = self.unseen + other.unseen, self.exact + other.exact
        self.count += other.count

    def sums(self) -> npt.NDArray[np.float64]:
        """(3C + 3)."""
        return np.concatenate([self._counts.reshape(-1), [self.unseen, self.exact, self.count]]).astype(np.float64)

    @staticmethod
    def score(sums: npt.NDArray[np.float64]) -> dict[str, float]:
        """The metrics of such sums. Macro F1 is over labels that are in the gold data or among the predictions."""
        correct, gold, predicted = sums[:-3].reshape(3, -1)
        unseen, exact, count = map(float, sums[-3:])
        there = gold + predicted > 0
        each = (2 * correct[there] / (gold + predicted)[there]).tolist()
        return {
            "micro_f1": ratio(2 * float(correct.sum()), float((gold + predicted).sum()) + unseen),
            "f1": ratio(sum(each), len(each) + (unseen > 0)),
            "exact": ratio(exact, count),
        }

    def occurring(self) -> list[ClassScore]:
        """A row for each label that is in the gold data or among the predictions."""
        return [
            class_score(label, correct=int(correct), gold=int(gold), predicted=int(predicted))
            for label, correct, gold, predicted in zip(self.labels, *self._counts, strict=True)
            if gold + predicted
        ]
