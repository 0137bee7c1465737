"""From the scores of a classifier to its labels: loss, weights, thresholds, metrics and answers.

`OneLabel` is here: the labels exclude each other. `ManyLabels` (many_labels.py) lets any number of them be right.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from weft.data import Ragged
from weft.errors import ConfigError, did_you_mean
from weft.metrics import Confusion, Reliability, Thresholds, choose_thresholds
from weft.models import decide
from weft.tasks.labels import ClassScores, label_columns, on_one_line
from weft.tasks.results import Prediction, Scores
from weft.tasks.sections import Tree
from weft.tasks.sequences import describe_input
from weft.tasks.task import UNSEEN, Loss, Rows, cross_entropy

Weights = Literal["balanced"] | Mapping[str, float]
"""The setting `train.class_weights`."""


class Targets(NamedTuple):
    """The labels of a batch as a tensor, the number of labels of each row that are not in the training data where
    several are possible, and how many rows count."""

    labels: Tensor
    others: Tensor | None
    examples: int


@dataclass(frozen=True)
class Classification(Prediction):
    """The label of an input, its probability and that of each label; the label is the likeliest one unless the model
    has decision thresholds."""

    text: str
    label: str
    probability: float
    probabilities: dict[str, float]
    second: str | None = None
    steps: int | None = None

    def __str__(self) -> str:
        return self.label

    def record(self) -> Tree:
        return describe_input(self) | {
            "label": self.label,
            "probability": self.probability,
            "probabilities": self.probabilities,
        }

    def line(self, *, probabilities: bool = False) -> str:
        if not probabilities:
            return on_one_line(self.label)
        return "\t".join(f"{on_one_line(label)}\t{share:.4g}" for label, share in self.probabilities.items())

    def cells(self, name: str, *, probabilities: bool = False) -> Tree:
        each = {f"probability_{label}": share for label, share in self.probabilities.items()} if probabilities else {}
        return {name: self.label, "probability": self.probability, **each}


class Deciding(ABC):
    """How a classifier of these labels decides, is trained and is measured."""

    metric: ClassVar[str]
    metrics: ClassVar[tuple[str, ...]]
    weights: Tensor | None = None
    """The weights of errors that `weigh` has set."""

    def __init__(self, labels: Sequence[str]) -> None:
        self.labels = tuple(labels)

    @abstractmethod
    def targets(self, column: Ragged, rows: Rows, size: int) -> Targets:
        """The labels of these rows, filled up to a batch of `size` rows with some that do not count."""

    @abstractmethod
    def loss(self, logits: Tensor, labels: Tensor, *, count: int, label_smoothing: float) -> Loss: ...

    @abstractmethod
    def weigh(self, weights: Weights, counts: Mapping[str, int], examples: int) -> None:
        """Weigh errors by label in `loss` from now on, given how many of the examples have each label."""

    @abstractmethod
    def scores(self, temperature: float) -> Scores: ...

    @abstractmethod
    def measure(
        self, scores: Any, logits: Tensor, labels: Tensor, others: Tensor | None, *, thresholds: Tensor | None
    ) -> None: ...

    @abstractmethod
    def thresholds(self, logits: Tensor, labels: Tensor) -> Thresholds:
        """The decision thresholds (C) that suit logits (N, C) and their labels best."""

    @abstractmethod
    def answers(self, logits: Tensor, records: Sequence[Any], *, thresholds: Tensor | None) -> Sequence[Prediction]: ...

    @abstractmethod
    def columns(self, name: str, *, probabilities: bool) -> list[str]: ...

    def reliability(self, temperature: float) -> dict[str, Reliability]:
        """Counts for the calibration error, and for that before the logits were divided by a temperature."""
        found = {"calibration_error": Reliability()}
        if temperature != 1.0:
            found["calibration_error_before"] = Reliability(temperature)
        return found

    def chosen_weights(self, weights: Mapping[str, float]) -> list[float]:
        """The weight of each label in a table; 1 for those that are not in it."""
        for label in weights:
            if label not in self.labels:
                cure = did_you_mean(label, self.labels)
                raise ConfigError("is no label of the training data", where=f'train.class_weights."{label}"', cure=cure)
        return [weights.get(label, 1.0) for label in self.labels]


class OneLabel(Deciding):
    """Labels that exclude each other: softmax and cross-entropy."""

    metric = "accuracy"
    metrics = ("accuracy", "f1", "loss")

    def targets(self, column: Ragged, rows: Rows, size: int) -> Targets:
        labels = column.join(rows).astype(np.int64)
        count = int((labels != UNSEEN).sum())
        labels = np.pad(labels, (0, size - len(labels)), constant_values=UNSEEN)
        return Targets(torch.from_numpy(labels), None, count)

    def loss(self, logits: Tensor, labels: Tensor, *, count: int, label_smoothing: float) -> Loss:
        weights = None if self.weights is None else self.weights.to(logits.device)
        return cross_entropy(logits, labels, count=count, label_smoothing=label_smoothing, weights=weights)

    def weigh(self, weights: Weights, counts: Mapping[str, int], examples: int) -> None:
        """balanced: N / (C · n), so that all labels weigh the same in sum and examples weigh 1 on average."""
        if weights == "balanced":
            total = sum(counts.values())
            each = [total / (len(self.labels) * max(1, counts[label])) for label in self.labels]
        else:
            each = self.chosen_weights(weights)
        self.weights = torch.tensor(each)

    def scores(self, temperature: float) -> ClassScores:
        return ClassScores(Confusion(self.labels), reliability=self.reliability(temperature))

    def measure(
        self, scores: Any, logits: Tensor, labels: Tensor, others: Tensor | None, *, thresholds: Tensor | None
    ) -> None:
        scores.add(logits, labels, decide(logits, thresholds))

    def thresholds(self, logits: Tensor, labels: Tensor) -> Thresholds:
        return choose_thresholds(logits.softmax(-1).numpy(), labels.numpy())

    def answers(self, logits: Tensor, records: Sequence[Any], *, thresholds: Tensor | None) -> list[Classification]:
        found, chosen = [], decide(logits, thresholds).tolist()
        for record, row, number in zip(records, logits.softmax(-1).tolist(), chosen, strict=True):
            by_label = dict(sorted(zip(self.labels, row, strict=True), key=lambda item: -item[1]))
            steps = None if record.steps is None else len(record.steps)
            found.append(Classification(record.text, self.labels[number], row[number], by_label, record.second, steps))
        return found

    def columns(self, name: str, *, probabilities: bool) -> list[str]:
        return label_columns(self.labels, name, probabilities=probabilities)


def thresholds_of(model: nn.Module) -> Tensor | None:
    """The decision thresholds of a model (C), if it has some."""
    found: Tensor | None = getattr(model, "thresholds", None)
    return found
