"""Several labels at once: each is there or not, whatever the others are.

p = σ(z)        loss = Σ_labels -[w⁺ y ln p + w⁻ (1 - y) ln (1 - p)] / C        answer: all labels with p ≥ t
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from weft.data import ManyLabelled, Ragged
from weft.metrics import LossTally, ManyCounts, Reliability, Thresholds, choose_each, wilson
from weft.models import decide_each, fit_many_bag
from weft.tasks.deciding import Deciding, Targets, Weights
from weft.tasks.labels import MAX_SHOWN_LABELS, on_one_line
from weft.tasks.results import Numbers, Prediction, Scores
from weft.tasks.sections import Tree
from weft.tasks.sequences import describe_input
from weft.tasks.task import UNSEEN, Baselines, Codec, Loss, Rows


@dataclass(frozen=True)
class ManyClassification(Prediction):
    """The labels of an input, the likeliest first, and the probability of each label."""

    text: str
    labels: tuple[str, ...]
    probabilities: dict[str, float]
    second: str | None = None
    steps: int | None = None

    def __str__(self) -> str:
        return ", ".join(self.labels)

    def record(self) -> Tree:
        return describe_input(self) | {"labels": list(self.labels), "probabilities": self.probabilities}

    def line(self, *, probabilities: bool = False) -> str:
        if not probabilities:
            return on_one_line(str(self))
        return "\t".join(f"{on_one_line(label)}\t{share:.4g}" for label, share in self.probabilities.items())

    def cells(self, name: str, *, probabilities: bool = False) -> Tree:
        each = {f"probability_{label}": share for label, share in self.probabilities.items()} if probabilities else {}
        return {name: list(self.labels), **each}


@dataclass
class ManyScores(Scores):
    """Counts of each label, and the loss."""

    counts: ManyCounts
    loss: LossTally = field(default_factory=LossTally)
    unseen: Counter[str] = field(default_factory=Counter)
    reliability: dict[str, Reliability] = field(default_factory=dict)

    def sums(self) -> Numbers:
        return np.concatenate([self.counts.sums(), self.loss.sums()])

    def score(self, sums: Numbers) -> dict[str, float]:
        loss = LossTally.of(sums[-2:])
        return self.counts.score(sums[:-2]) | ({"loss": loss.loss} if loss.count else {})

    def merge(self, other: ManyScores) -> None:
        self.counts.merge(other.counts)
        self.loss.merge(other.loss)
        self.unseen.update(other.unseen)
        for name, reliability in self.reliability.items():
            reliability.merge(other.reliability[name])

    def details(self) -> Tree:
        counts = self.counts
        return {
            "f1_average": "macro",
            "count": counts.count,
            "count_of": "examples",
            "intervals": {"exact": wilson(counts.exact, counts.count)},
            "per_class": [row._asdict() for row in counts.occurring()],
            "unseen": counts.unseen,
            "unseen_labels": dict(self.unseen.most_common(MAX_SHOWN_LABELS)),
            **{name: reliability.error for name, reliability in self.reliability.items()},
        }


class ManyLabels(Deciding):
    """Any number of labels: sigmoid and binary cross-entropy. `weights` (2, C) are those of labels that are not there,
    and of those that are."""

    metric = "micro_f1"
    metrics = ("micro_f1", "f1", "exact", "loss")

    def targets(self, column: Ragged, rows: Rows, size: int) -> Targets:
        numbers, lengths = column.join(rows), column.lengths[np.asarray(rows)]
        where, known = np.repeat(np.arange(len(lengths)), lengths), numbers != UNSEEN
        labels = np.zeros((size, len(self.labels)), dtype=np.float32)
        labels[len(lengths) :] = UNSEEN
        labels[where[known], numbers[known]] = 1.0
        others = np.bincount(where[~known], minlength=size).astype(np.int64)
        return Targets(torch.from_numpy(labels), torch.from_numpy(others), len(lengths))

    def loss(self, logits: Tensor, labels: Tensor, *, count: int, label_smoothing: float) -> Loss:
        counts = labels >= 0  # not those of rows that only fill the batch
        smooth = labels.clamp(min=0) * (1 - label_smoothing) + label_smoothing / 2
        each = F.binary_cross_entropy_with_logits(logits.float(), smooth, reduction="none")
        if self.weights is not None:
            absent, present = self.weights.to(logits.device)
            each = each * torch.where(labels > 0, present, absent)
        return Loss((each * counts).sum() / len(self.labels), count)

    def weigh(self, weights: Weights, counts: Mapping[str, int], examples: int) -> None:
        """balanced: N / 2n for the n examples with the label and N / 2(N - n) for the others; a table: a weight for the
        examples with the label."""
        if weights == "balanced":
            present = torch.tensor([counts[label] for label in self.labels], dtype=torch.float32)
            both = torch.stack([examples - present, present])
            self.weights = examples / (2 * both.clamp(min=1))
        else:
            each = torch.tensor(self.chosen_weights(weights))
            self.weights = torch.stack([torch.ones_like(each), each])

    def scores(self, temperature: float) -> ManyScores:
        return ManyScores(ManyCounts(self.labels), reliability=self.reliability(temperature))

    def measure(
        self, scores: Any, logits: Tensor, labels: Tensor, others: Tensor | None, *, thresholds: Tensor | None
    ) -> None:
        assert others is not None
        loss = ManyLabels(self.labels).loss(logits, labels, count=len(labels), label_smoothing=0.0)
        scores.loss.add(float(loss.total), loss.count)
        predicted = decide_each(logits, thresholds)
        scores.counts.add((labels > 0).cpu().numpy(), predicted.cpu().numpy(), others.cpu().numpy())
        for reliability in scores.reliability.values():
            reliability.add(logits, labels)

    def thresholds(self, logits: Tensor, labels: Tensor) -> Thresholds:
        return choose_each(logits.sigmoid().numpy(), (labels > 0).numpy())

    def answers(self, logits: Tensor, records: Sequence[Any], *, thresholds: Tensor | None) -> list[ManyClassification]:
        found, chosen = [], decide_each(logits, thresholds).tolist()
        for record, row, there in zip(records, logits.sigmoid().tolist(), chosen, strict=True):
            order = sorted(range(len(row)), key=lambda number: -row[number])
            by_label = {self.labels[number]: row[number] for number in order}
            labels = tuple(self.labels[number] for number in order if there[number])
            steps = None if record.steps is None else len(record.steps)
            found.append(ManyClassification(record.text, labels, by_label, record.second, steps))
        return found

    def columns(self, name: str, *, probabilities: bool) -> list[str]:
        return [name, *(f"probability_{label}" for label in self.labels if probabilities)]


def many_baselines(
    codec: Codec, train: Iterable[ManyLabelled], parts: Mapping[str, Sequence[ManyLabelled]], *, bag: bool, seed: int
) -> dict[str, Baselines]:
    """`majority`: the labels that more than half of the examples have. `frequent`: the most frequent labels, as many as
    an example has on average. `bag`: a bag of n-grams, for texts unless it is the model itself."""
    counts: Counter[int] = Counter()
    examples = 0

    def counted() -> Iterator[tuple[str, list[int]]]:
        nonlocal examples
        for record in train:
            examples += 1
            numbers = [number for label in record.labels or () if (number := codec.label_id(label)) != UNSEEN]
            counts.update(numbers)
            yield record.text, numbers

    fitted = fit_many_bag(counted(), len(codec.labels), seed=seed) if bag else None
    if fitted is None:
        for _ in counted():
            pass
    usual = sum(counts.values()) / max(1, examples)
    ordered = sorted(counts, key=lambda number: (-counts[number], number))
    answers = {
        "majority": [number for number in ordered if 2 * counts[number] > examples],
        "frequent": ordered[: max(1, round(usual))],
    }
    found: dict[str, Baselines] = {}
    for part, records in parts.items():
        found[part] = {}
        for name, answer in answers.items():
            same = np.zeros((len(records), len(codec.labels)), dtype=np.bool_)
            same[:, answer] = True
            found[part][name] = _score_predicted(codec, records, same)
        if fitted is not None:
            predicted = fitted.decide([record.text for record in records])
            found[part]["bag"] = _score_predicted(codec, records, predicted) | {"examples": fitted.fitted}
    return found


def _score_predicted(codec: Codec, records: Sequence[ManyLabelled], predicted: NDArray[np.bool_]) -> dict[str, float]:
    """The scores of predicted labels (N, C)."""
    gold = np.zeros((len(records), len(codec.labels)), dtype=np.bool_)
    others = np.zeros(len(records), dtype=np.int64)
    for row, record in enumerate(records):
        for label in record.labels or ():
            number = codec.label_id(label)
            if number == UNSEEN:
                others[row] += 1
            else:
                gold[row, number] = True
    counts = ManyCounts(codec.labels)
    counts.add(gold, predicted, others)
    return counts.score(counts.sums())
