"""Precision, recall and F1 from counts. A division by zero gives 0."""

from __future__ import annotations

from typing import NamedTuple


class ClassScore(NamedTuple):
    """How well one class was found; `support` is how often it is in the gold data."""

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
