"""Results of a state search: units with their scores, places of the corpus, and an excerpt for the picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from weft.charts import readable
from weft.inspect.corpus_states import CorpusStates
from weft.inspect.terminal import cut

CONTEXT: Final = 120
"""Tokens of an excerpt."""

BEFORE, AFTER = 30, 24
"""Characters that are shown before and after a place."""

MAX_SHOWN: Final = 80
"""Characters that are shown of a place itself."""


@dataclass(frozen=True)
class Place:
    """A stretch of a corpus: the number of its text, its first token there and how many it has, and its words."""

    text: int
    position: int
    length: int
    before: str
    inside: str
    after: str
    value: float
    """The highest size of the unit's value there, with its sign."""

    headings: ClassVar = ("text", "position", "tokens", "before", "inside", "after", "value")

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def row(self) -> tuple[str | float | int, ...]:
        return self.text, self.position, self.length, self.before, self.inside, self.after, self.value

    def line(self, width: int) -> Text:
        found = Text(f"  {self.value:+.2f}  ")
        found.append(_one_line(self.before).rjust(BEFORE), style="dim")
        found.append(
            cut(shown, min(len(shown), max(10, width - 50))) if (shown := _one_line(self.inside)) else "", "reverse"
        )
        found.append(_one_line(self.after), style="dim")
        return found


@dataclass(frozen=True)
class FoundUnit:
    """A unit with the threshold beyond which it is on, and the scores that the search has for it."""

    unit: int
    sign: int
    threshold: float
    precision: float | None = None
    recall: float | None = None
    f1: float | None = None
    margin: float | None = None
    explained: float | None = None
    tokens: tuple[tuple[str, float, int], ...] = ()
    contexts: tuple[Place, ...] = ()

    headings: ClassVar = ("unit", "on", "precision", "recall", "F1", "margin", "explained by the token", "tokens")

    @property
    def condition(self) -> str:
        return f"{'≥' if self.sign == 1 else '≤'} {self.threshold:.3f}"

    def to_dict(self) -> dict[str, Any]:
        tokens = [{"token": token, "mean": mean, "count": count} for token, mean, count in self.tokens]
        return asdict(self) | {"tokens": tokens, "contexts": [place.to_dict() for place in self.contexts]}

    def row(self) -> tuple[str | float | int, ...]:
        scores = (self.precision, self.recall, self.f1, self.margin, self.explained)
        return self.unit, self.condition, *("" if score is None else score for score in scores), self._tokens()

    def line(self) -> Text:
        found = Text(f"unit {self.unit:4d}  on {self.condition:9s}")
        if self.f1 is not None:
            found.append(f"  precision {self.precision:.3f}  recall {self.recall:.3f}  F1 {self.f1:.3f}")
        if self.margin is not None:
            found.append(f"  margin {self.margin:.2f}")
        if self.explained is not None:
            found.append(f"  {self.explained:.0%} explained by the token: {self._tokens()}")
        return found

    def _tokens(self) -> str:
        return ", ".join(f"{readable(token)} {mean:+.1f}" for token, mean, _ in self.tokens)


@dataclass(frozen=True)
class Excerpt:
    """Some tokens of the corpus with the values of a few units: rows of a heat map."""

    tokens: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    values: tuple[tuple[float, ...], ...] = ()
    units: tuple[int, ...] = ()
    """The units of the set that is on together."""
    conditions: tuple[tuple[int, float], ...] = ()
    """The sign and the threshold of each row."""

    def scaled(self) -> NDArray[np.float32]:
        """The rows from -1 to 1, positive where a unit is on: distances to its threshold by the largest."""
        signs, thresholds = np.array(self.conditions, dtype=np.float32).T[..., None]
        values = signs * (np.array(self.values, dtype=np.float32) - thresholds)
        found: NDArray[np.float32] = values / np.maximum(np.abs(values).max(1, initial=1e-6, keepdims=True), 1e-6)
        return found

    def to_dict(self) -> dict[str, Any]:
        return {
            "tokens": list(self.tokens),
            "rows": list(self.rows),
            "values": [list(row) for row in self.values],
            "units": list(self.units),
            "conditions": [{"sign": sign, "threshold": threshold} for sign, threshold in self.conditions],
        }


def place_at(read: CorpusStates, first: int, last: int, unit: int) -> Place:
    """The tokens from `first` to before `last`, with the words around them."""
    number = int(read.text_of[first])
    text, start, end = read.texts[number], int(read.spans[first, 0]), int(read.spans[last - 1, 1])
    position = first - int(np.searchsorted(read.text_of, number))
    column = read.values[first:last, unit]
    value = float(column[np.abs(column).argmax()])
    inside = text[start:end] if end - start <= MAX_SHOWN else f"{text[start : start + MAX_SHOWN]}…"
    before, after = text[max(0, start - BEFORE) : start], text[end : end + AFTER]
    return Place(number, position, last - first, before, inside, after, round(value, 4))


def excerpt_of(
    read: CorpusStates,
    first: int,
    last: int,
    units: Sequence[FoundUnit],
    *,
    chosen: Sequence[int],
    truth: NDArray[np.bool_] | None = None,
) -> Excerpt:
    """The tokens around a stretch of one text, with the values of some units and, as ±1, what they should follow."""
    same = np.flatnonzero(read.text_of == read.text_of[first])
    room = max(0, CONTEXT - (last - first)) // 2
    begin, end = max(int(same[0]), first - room), min(int(same[-1]) + 1, max(last + room, first + 1))
    end = min(end, begin + CONTEXT)
    values = [read.values[begin:end, one.unit] for one in units]
    rows = [f"unit {one.unit}" for one in units]
    conditions = [(one.sign, one.threshold) for one in units]
    if truth is not None:
        values.insert(0, np.where(truth[begin:end], 1, -1).astype(np.float32))
        rows.insert(0, "inside")
        conditions.insert(0, (1, 0.0))
    numbers = tuple(tuple(round(float(value), 4) for value in row) for row in values)
    tokens = tuple(read.token(place) for place in range(begin, end))
    return Excerpt(tokens, tuple(rows), numbers, tuple(chosen), tuple(conditions))


def _one_line(text: str) -> str:
    return text.replace("\n", "⏎").replace("\t", "⇥")
