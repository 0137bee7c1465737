"""Precision, recall and F1 of tagged spans, such as the names of people in a text.

Tags are `O` or a mark and a type: B-PER begins a span, I-PER continues it, and with BIOES E-PER ends one and S-PER
is one of a single word. A span counts as found only if its type and both of its ends are right.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from weft.metrics.scores import ClassScore, class_score, f1, ratio

_SPAN_TAG = re.compile(r"[BIES]-.+", re.DOTALL)


class Span(NamedTuple):
    """A stretch of tokens, from `start` up to but not including `end`."""

    type: str
    start: int
    end: int


def spans(tags: Sequence[str]) -> list[Span]:
    """The spans of a tag sequence, in order.

    As in conlleval, an I or E without a span of its type before it begins one.
    """
    found: list[Span] = []
    open_type: str | None = None
    for position, tag in enumerate(tags):
        mark, _, kind = tag.partition("-")
        if mark not in ("B", "I", "E", "S"):
            open_type = None
            continue
        if mark in ("I", "E") and kind == open_type:
            found[-1] = found[-1]._replace(end=position + 1)
        else:
            found.append(Span(kind, position, position + 1))
        open_type = kind if mark in ("B", "I") else None
    return found


def looks_like_spans(tags: Iterable[str]) -> bool:
    """Whether tags mark spans: nothing but O, B-x, I-x, E-x and S-x, and at least one B-x or S-x."""
    begun = False
    for tag in tags:
        if tag != "O" and not _SPAN_TAG.fullmatch(tag):
            return False
        begun = begun or tag[0] in "BS"
    return begun


class SpanTally:
    """Counts spans that are in the gold tags, in the predicted tags, and in both. No span gives 0 everywhere."""

    def __init__(self) -> None:
        self._gold: Counter[str] = Counter()
        self._predicted: Counter[str] = Counter()
        self._correct: Counter[str] = Counter()

    def add(self, gold: Sequence[str], predicted: Sequence[str]) -> None:
        """Count the spans of one sentence: gold (T) and predicted (T) tags."""
        if len(gold) != len(predicted):
            raise ValueError(f"{len(gold)} gold tags for {len(predicted)} predictions")
        there, found = spans(gold), spans(predicted)
        self._gold.update(span.type for span in there)
        self._predicted.update(span.type for span in found)
        self._correct.update(span.type for span in set(there) & set(found))

    def merge(self, other: SpanTally) -> None:
        """Add everything that another tally has counted."""
        self._gold += other._gold
        self._predicted += other._predicted
        self._correct += other._correct

    def sums(self) -> tuple[int, int, int]:
        """Correct, gold and predicted spans, which micro F1 follows from by `metrics.scores.f1`."""
        return self._correct.total(), self._gold.total(), self._predicted.total()

    @property
    def precision(self) -> float:
        """Share of the predicted spans that are right."""
        return ratio(self._correct.total(), self._predicted.total())

    @property
    def recall(self) -> float:
        """Share of the gold spans that were found."""
        return ratio(self._correct.total(), self._gold.total())

    @property
    def f1(self) -> float:
        """Micro F1: of all spans together."""
        return f1(*self.sums())

    def per_class(self) -> list[ClassScore]:
        """One row for each type of span, by name."""
        return [
            class_score(name, correct=self._correct[name], gold=self._gold[name], predicted=self._predicted[name])
            for name in sorted(self._gold.keys() | self._predicted.keys())
        ]
