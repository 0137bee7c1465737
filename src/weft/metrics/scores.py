"""Precision, recall and F1 from counts, where a division by zero gives 0; and the scores that are shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class ClassScore(NamedTuple):
    """Precision, recall and F1 of one class; `support` is its count in the gold data."""

    label: str
    precision: float
    recall: float
    f1: float
    support: int


def ratio(part: float, whole: float) -> float:
    """part / whole, or 0 where there is nothing to divide by."""
    return part / whole if whole else 0.0


def f1(correct: float, gold: float, predicted: float) -> float:
    """2PR / (P + R) = 2 correct / (gold + predicted), the harmonic mean of precision P and recall R."""
    return ratio(2 * correct, gold + predicted)


def class_score(label: str, *, correct: int, gold: int, predicted: int) -> ClassScore:
    """The scores of one class: correct / predicted, correct / gold, and F1."""
    return ClassScore(label, ratio(correct, predicted), ratio(correct, gold), f1(correct, gold, predicted), gold)


def shown(metrics: Mapping[str, float], details: Mapping[str, Any], chosen_by: str | None = None) -> dict[str, float]:
    """The scores that mean something for the data, in the order of `details["shown"]`; without it all of them.

    The score that chose the model is always among them.
    """
    names = details.get("shown", metrics)
    extra = [chosen_by] if chosen_by in metrics and chosen_by not in names else []
    return {name: metrics[name] for name in [*extra, *names] if name in metrics}
