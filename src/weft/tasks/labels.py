"""Labels, as classifying and tagging share them: collecting them, counting right and wrong."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from weft.errors import DataError
from weft.metrics import Confusion, LossTally
from weft.tasks.task import UNSEEN, cross_entropy


def collect_labels(groups: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """Every label there is, in a fixed order."""
    return tuple(sorted({label for group in groups for label in group}))


def require_classes(labels: tuple[str, ...]) -> None:
    if len(labels) < 2:
        raise DataError(
            f"the training data has {f'only the label {labels[0]!r}' if labels else 'no labels'}",
            where="data.train",
            cure="a classifier needs at least two labels; check data.label",
        )


@dataclass
class ClassScores:
    """Loss and confusion over single decisions."""

    confusion: Confusion
    loss: LossTally = field(default_factory=LossTally)

    def add(self, logits: Tensor, labels: Tensor) -> None:
        """logits (N, C) and labels (N); a label unseen in training counts as wrong."""
        seen = labels != UNSEEN
        loss = cross_entropy(logits[seen], labels[seen])
        self.loss.add(float(loss.total), loss.count)
        self.confusion.add(labels.tolist(), logits.argmax(-1).tolist())

    def metrics(self) -> dict[str, float]:
        return {
            "accuracy": self.confusion.accuracy,
            "f1": self.confusion.f1,
            "loss": self.loss.loss,
        }

    def details(self) -> dict[str, Any]:
        return {
            "labels": list(self.confusion.labels),
            "majority_accuracy": self.confusion.majority,
            "per_class": [row._asdict() for row in self.confusion.per_class()],
            "confusion": self.confusion.matrix.tolist(),
            "unseen": self.confusion.unseen,
        }
