"""Labels of classifying and tagging: collecting, describing, and counting right and wrong ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import shorten
from typing import Any

import numpy as np
from torch import Tensor

from weft.data import Examples, Record, Tagged, labels_of
from weft.errors import DataError
from weft.metrics import Confusion, LossTally, Reliability, wilson
from weft.tasks.results import Numbers, Scores
from weft.tasks.task import UNSEEN, Codec, Loss, cross_entropy

MAX_SHOWN_LABELS, FREQUENT_LABELS, RARE_LABELS = 10, 6, 2
"""Up to so many labels are all listed with their counts; of more, so many of the most frequent and of the rarest."""

MAX_CONFUSION_LABELS = 500
"""A report has the table of gold against predicted labels up to so many of them; its size grows with their square."""

LOPSIDED_SHARE = 0.95
"""The share of one label above which accuracy says little."""

LABEL_CHARACTERS = 24
"""Characters of a label in a message."""


def collect_labels(groups: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """All labels, sorted."""
    return tuple(sorted({label for group in groups for label in group}))


def on_one_line(label: str) -> str:
    """A label for a line whose parts are separated by tabs: line breaks and tabs are spelled \\n, \\r and \\t."""
    return label.translate({ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t"})


def require_classes(
    labels: tuple[str, ...], *, least: int = 2, model: str = "a classifier", setting: str = "data.label"
) -> None:
    """Raise where there are fewer labels than such a model needs: two, or one that may be there or not."""
    if len(labels) < least:
        raise DataError(
            f"the training data has {f'only the label {labels[0]!r}' if labels else 'no labels'}",
            where="data.train",
            cure=f"{model} needs at least {'two labels' if least > 1 else 'one label'}; check {setting}",
        )


def count_labels(codec: Codec, examples: Examples, column: str) -> dict[str, int]:
    """How often each label is in a column of label numbers."""
    counts = np.zeros(len(codec.labels) + 1, dtype=np.int64)
    values, size = examples.columns[column], 1 << 20
    for start in range(0, values.size, size):
        numbers = values.flat(start, start + size).astype(np.int64)
        counts += np.bincount(numbers + 1, minlength=len(counts))  # labels that are not in the training data are -1
    return dict(zip(codec.labels, counts[1:].tolist(), strict=True))


def describe_labels(counts: Mapping[str, int], examples: int) -> Iterator[str]:
    """A line with the counts, and one for each thing that looks wrong about them."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = [f"{_short(label)} {count:,}" for label, count in ordered]
    if len(shown) > MAX_SHOWN_LABELS:
        yield f"{len(shown):,} labels: {' · '.join(shown[:FREQUENT_LABELS])} · … · {' · '.join(shown[-RARE_LABELS:])}"
    else:
        yield f"labels: {' · '.join(shown)}"
    total = sum(counts.values())
    label, most = ordered[0]
    if most > LOPSIDED_SHARE * total:
        yield f'"{_short(label)}" is {100 * most / total:.1f}% of all labels: accuracy says little here, macro f1 more'
    if len(counts) > max(10, examples / 2):
        yield (
            f"{len(counts):,} different labels in {examples:,} examples look like text of their own: check data.label"
        )
    if none := [_short(label) for label, count in counts.items() if not count]:
        yield f"no training example is left of {', '.join(none[:MAX_SHOWN_LABELS])}: data.max_length drops them"


def _short(label: str) -> str:
    return shorten(label, LABEL_CHARACTERS, placeholder="…") or label[:LABEL_CHARACTERS]


def describe_unseen(codec: Codec, records: Iterable[Record], part: str) -> Iterator[str]:
    """A sentence on labels of the records that are not in the training data, if there are any."""
    labels: Counter[str] = Counter()
    what = "examples have labels"
    for record in records:
        if isinstance(record, Tagged):
            labels.update(record.tags or ())
            what = "words have tags"
        else:
            labels.update(labels_of(record))
    unseen = {label: count for label, count in labels.items() if codec.label_id(label) == UNSEEN}
    if unseen:
        named = ", ".join(map(_short, list(unseen)[:MAX_SHOWN_LABELS]))
        yield f"{sum(unseen.values()):,} {part} {what} that training never saw, counted as wrong: {named}"


def label_columns(labels: Sequence[str], name: str, *, probabilities: bool) -> list[str]:
    """The columns of an answer that is a label: its name, its probability, and on request that of each label."""
    return [name, "probability", *(f"probability_{label}" for label in labels if probabilities)]


@dataclass
class ClassScores(Scores):
    """Loss and confusion over single decisions."""

    confusion: Confusion
    loss: LossTally = field(default_factory=LossTally)
    unit: str = "examples"
    """The word for the things that are classified."""
    unseen: Counter[str] = field(default_factory=Counter)
    """Labels that are not in the training data, with their counts."""
    reliability: dict[str, Reliability] = field(default_factory=dict)
    """Counts for the calibration errors, by their names in the report."""

    def add(self, logits: Tensor, labels: Tensor, answers: Tensor | None = None) -> None:
        """Add logits (N, C) and labels (N); a label that is not in the training data counts as wrong. The answers (N)
        are the likeliest labels unless they are given."""
        known = labels != UNSEEN
        chosen = logits.argmax(-1) if answers is None else answers
        self.add_decisions(labels, chosen, cross_entropy(logits[known], labels[known]))
        for reliability in self.reliability.values():
            reliability.add(logits, labels)

    def add_decisions(self, labels: Tensor, predicted: Tensor, loss: Loss) -> None:
        """Add labels (N), those that were predicted (N), and the loss of all of them."""
        self.loss.add(float(loss.total), loss.count)
        self.confusion.add(labels.tolist(), predicted.tolist())

    def sums(self) -> Numbers:
        return np.concatenate([self.confusion.sums(), self.loss.sums()])

    def score(self, sums: Numbers) -> dict[str, float]:
        loss = LossTally.of(sums[-2:])
        return self.confusion.score(sums[:-2]) | ({"loss": loss.loss} if loss.count else {})  # no label may be known

    def merge(self, other: ClassScores) -> None:
        self.confusion.merge(other.confusion)
        self.loss.merge(other.loss)
        self.unseen.update(other.unseen)
        for name, reliability in self.reliability.items():
            reliability.merge(other.reliability[name])

    def details(self) -> dict[str, Any]:
        confusion = self.confusion
        return {
            "f1_average": "macro",
            "count": confusion.count,
            "count_of": self.unit,
            "intervals": {"accuracy": wilson(confusion.correct, confusion.count)},
            "labels": list(confusion.labels),
            "majority_accuracy": confusion.majority,
            "per_class": [row._asdict() for row in confusion.occurring()],
            **({"confusion": confusion.matrix.tolist()} if len(confusion.labels) <= MAX_CONFUSION_LABELS else {}),
            "unseen": confusion.unseen,
            "unseen_labels": dict(self.unseen.most_common(MAX_SHOWN_LABELS)),
            **{name: reliability.error for name, reliability in self.reliability.items()},
        }


def label_scores(labels: Sequence[str], gold: Sequence[int], predicted: Sequence[int]) -> dict[str, float]:
    """Accuracy and macro F1 of label numbers."""
    confusion = Confusion(labels)
    confusion.add(gold, predicted)
    return {"accuracy": confusion.accuracy, "f1": confusion.f1}
