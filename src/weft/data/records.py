"""Records: the examples that a reader yields, one small value each.

`place` is `file:line`, with the path as it was given, or "" for an example that comes from no file. Examples with the
same `key` count as the same when data is split; `stratum` is the class that both parts should have in equal shares, if
there is one; `sides` are the texts whose shape decides on defaults, in a fixed order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class Text:
    """A text to be modelled."""

    text: str
    place: str = ""

    @property
    def key(self) -> str:
        return self.text

    @property
    def stratum(self) -> str | None:
        return None

    @property
    def sides(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class Labelled:
    """A text and its class; no label while it is still to be predicted."""

    text: str
    label: str | None = None
    place: str = ""

    @property
    def key(self) -> str:
        return self.text

    @property
    def stratum(self) -> str | None:
        return self.label

    @property
    def sides(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class Tagged:
    """A sentence split into words, with one tag per word; no tags while they are still to be predicted."""

    words: tuple[str, ...]
    tags: tuple[str, ...] | None = None
    place: str = ""

    @property
    def key(self) -> str:
        return " ".join(self.words)

    @property
    def stratum(self) -> str | None:
        return None

    @property
    def sides(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class Pair:
    """A source text and its target; no target while it is still to be predicted. `language` is that of the target,
    where there are several; `references` are all right targets, in an evaluation with several of a source."""

    source: str
    target: str | None = None
    place: str = ""
    language: str | None = None
    references: tuple[str, ...] = ()

    @property
    def accepted(self) -> tuple[str, ...]:
        """The targets that are right."""
        return self.references or (self.target or "",)

    @property
    def key(self) -> str:
        return self.source

    @property
    def stratum(self) -> str | None:
        return None

    @property
    def sides(self) -> tuple[str, ...]:
        return (self.source, self.target or "")


@dataclass(frozen=True, slots=True)
class Similarity:
    """Two words, and the similarity that people gave them."""

    first: str
    second: str
    score: float
    place: str = ""

    @property
    def key(self) -> str:
        return f"{self.first} {self.second}"

    @property
    def stratum(self) -> str | None:
        return None

    @property
    def sides(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class Analogy:
    """Four words: the first is to the second as the third is to the fourth."""

    words: tuple[str, ...]
    section: str = ""
    place: str = ""

    @property
    def key(self) -> str:
        return " ".join(self.words)

    @property
    def stratum(self) -> str | None:
        return None

    @property
    def sides(self) -> tuple[str, ...]:
        return ()


Record: TypeAlias = Text | Labelled | Tagged | Pair | Similarity | Analogy
"""One example of any task."""

KINDS: dict[str, Callable[..., Record]] = {
    "Text": Text,
    "Labelled": Labelled,
    "Tagged": Tagged,
    "Pair": Pair,
    "Similarity": Similarity,
    "Analogy": Analogy,
}


def as_values(record: Record) -> list[Any]:
    """Return a record as plain JSON values."""
    return [type(record).__name__, *(getattr(record, field.name) for field in fields(record))]


def from_values(values: list[Any]) -> Record:
    """Return the record that `as_values` was called with."""
    kind, *parts = values
    return KINDS[kind](*(tuple(part) if isinstance(part, list) else part for part in parts))
