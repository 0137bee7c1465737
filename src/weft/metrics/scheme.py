"""The rules of tags that mark spans (BIO, BIOES): which tag may follow which, and tags that break the rules repaired.

    B-x begins a span and I-x continues it.  With BIOES, E-x ends a span and S-x is a span of one word.

The labels of the training data decide on the rules, type by type. Where they have E-x, a span of x that B-x has begun
must go on until E-x. Where they lack B-x, as some types do in files of the older IOB1, I-x or E-x may begin a span.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.metrics.span import spans

Mask = NDArray[np.bool_]
Numbers = NDArray[np.int64]


class _Tag(NamedTuple):
    mark: str
    kind: str


class SpanScheme:
    """Which of the labels, by their numbers, may begin a sequence (L), follow each other (L, L) and end it (L).

    Every length has a legal sequence. `unknown` is the number of a tag that is not among the labels.
    """

    def __init__(self, labels: Sequence[str], *, unknown: int) -> None:
        self.labels, self.unknown = tuple(labels), unknown
        self._ids = {label: number for number, label in enumerate(self.labels)}
        self._tags = [_Tag(*label.split("-", 1)) if "-" in label else _Tag(label, "") for label in self.labels]
        begins, ends = self._begins(), self._ends()
        if not (begins & ends).any():  # no word could stand alone: then a span may end anywhere
            ends = np.ones(len(labels), dtype=np.bool_)
        inside = np.array([[self._goes_on(one, other) for other in self._tags] for one in self._tags], dtype=np.bool_)
        self.start: Mask = begins
        self.end: Mask = ends
        self.transitions: Mask = inside | (ends[:, None] & begins)

    def _has(self, mark: str, kind: str) -> bool:
        return f"{mark}-{kind}" in self._ids

    def _begins(self) -> Mask:
        """The tags that begin a span or stand outside of all."""
        return np.array([tag.mark not in ("I", "E") or not self._has("B", tag.kind) for tag in self._tags])

    def _ends(self) -> Mask:
        """The tags after which a new span, or none, may follow."""
        return np.array([tag.mark not in ("B", "I") or not self._has("E", tag.kind) for tag in self._tags])

    @staticmethod
    def _goes_on(one: _Tag, other: _Tag) -> bool:
        return one.mark in ("B", "I") and other.mark in ("I", "E") and one.kind == other.kind

    def breaks(self, tags: Numbers) -> bool:
        """Whether tags (T), given by their numbers, break the rules; unknown ones do so only through the others."""
        reached: Mask = np.zeros(0, dtype=np.bool_)
        for place, number in enumerate(tags.tolist()):
            reached = self.start if place == 0 else reached @ self.transitions
            if number != self.unknown:
                reached = reached & (np.arange(len(reached)) == number)
        return bool(len(tags)) and not (reached & self.end).any()

    def repair_rows(self, tags: Numbers, lengths: Numbers) -> Numbers:
        """tags (B, T), lengths (B) -> the same with each row repaired that breaks the rules, see `repair`."""
        if tags.shape[1] == 0:
            return tags
        real = np.arange(tags.shape[1]) < lengths[:, None]
        last = tags[np.arange(len(tags)), np.maximum(lengths - 1, 0)]
        legal = (self.transitions[tags[:, :-1], tags[:, 1:]] | ~real[:, 1:]).all(1) & self.start[tags[:, 0]]
        legal &= self.end[last] & ~((tags == self.unknown) & real).any(1)
        fixed = tags.copy()
        for row in np.flatnonzero(~legal).tolist():
            length = int(lengths[row])
            fixed[row, :length] = self.repair(tags[row, :length])
        return fixed

    def repair(self, tags: Numbers) -> Numbers:
        """The tags (T) that mark the same spans and keep the rules, where there are such labels.

        A span is what the metric takes for one: an I or E without a span of its type before it begins one. All tags
        are unknown where no labels mark these spans.
        """
        if not self.breaks(tags):
            return tags
        fixed = tags.copy()
        for kind, start, end in spans([self.labels[number] if number != self.unknown else "?" for number in tags]):
            for place in range(start, end):
                fixed[place] = self._label(kind, first=place == start, last=place == end - 1)
        return np.full_like(tags, self.unknown) if self.breaks(fixed) else fixed

    def _label(self, kind: str, *, first: bool, last: bool) -> int:
        """The number of the label for a word of a span; unknown if there is no such label."""
        closed = self._has("E", kind)
        if first and last:
            marks: tuple[str, ...] = ("S",) if closed else ("S", "B", "I")
        else:
            marks = ("B", "I") if first else ("E",) if last and closed else ("I",)
        names = (f"{mark}-{kind}" for mark in marks)
        return next((self._ids[name] for name in names if name in self._ids), self.unknown)
