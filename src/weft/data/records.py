"""Records: the examples that a reader yields, one small value each.

`place` is `file:line`, with the path as it was given, or "" for an example that comes from no file. Examples with the
same `key` count as the same when data is split; `stratum` is the class that both parts should have in equal shares, if
there is one; `sides` are the texts whose shape decides on defaults, in a fixed order; `size` counts the characters of
the input, or the numbers of feature vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

from weft.data.images import Picture
from weft.data.series import Series
from weft.data.steps import Steps

PAIR = " ||| "
"""The text between the two texts of a pair in its key."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text to be modelled."""

    text: str
    place: str = ""

    @property
    def key(self) -> str:
        return self.text

    @property
    def title(self) -> str:
        """The input as an answer names it."""
        return self.text

    @property
    def stratum(self) -> str | None:
        return None

    @property
    def sides(self) -> tuple[str, ...]:
        return ()

    @property
    def size(self) -> int:
        return len(self.text)


class WholeInput:
    """The input of a record with one answer: a text, two texts, or feature vectors (then the text is empty)."""

    __slots__ = ()

    text: str
    place: str
    second: str | None
    steps: Steps | None

    @property
    def key(self) -> str:
        if self.steps is not None:
            return self.steps.key
        return self.text if self.second is None else f"{self.text}{PAIR}{self.second}"

    @property
    def stratum(self) -> str | None:
        return None

    @property
    def sides(self) -> tuple[str, ...]:
        return ()

    @property
    def size(self) -> int:
        return self.steps.size if self.steps is not None else len(self.text) + len(self.second or "")


@dataclass(frozen=True, slots=True)
class Labelled(WholeInput):
    """A text and its class; no label while it is still to be predicted."""

    text: str
    label: str | None = None
    place: str = ""
    second: str | None = None
    """The second text of a pair."""
    steps: Steps | None = None
    """Feature vectors in the place of a text."""

    @property
    def stratum(self) -> str | None:
        return self.label


@dataclass(frozen=True, slots=True)
class ManyLabelled(WholeInput):
    """A text and any number of labels; None while they are still to be predicted."""

    text: str
    labels: tuple[str, ...] | None = None
    place: str = ""
    second: str | None = None
    steps: Steps | None = None


@dataclass(frozen=True, slots=True)
class Measured(WholeInput):
    """A text and a number; None while it is still to be predicted."""

    text: str
    number: float | None = None
    place: str = ""
    second: str | None = None
    steps: Steps | None = None


@dataclass(frozen=True, slots=True)
class Tagged:
    """A sentence split into words, with one tag per word; no tags while they are still to be predicted."""

    words: tuple[str, ...]
    tags: tuple[str, ...] | None = None
    place: str = ""
    steps: Steps | None = None
    """Feature vectors in the place of words, which are then the numbers of the steps."""

    @property
    def key(self) -> str:
        return " ".join(self.words) if self.steps is None else self.steps.key

    @property
    def stratum(self) -> str | None:
        return None

    @property
    def sides(self) -> tuple[str, ...]:
        return ()

    @property
    def size(self) -> int:
        return len(self.key) if self.steps is None else self.steps.size


@dataclass(frozen=True, slots=True)
class Pair:
    """A source text and its target; no target while it is still to be predicted. `language` is that of the target,
    where there are several; `references` are all right targets, in an evaluation with several of a source. The source
    may be a picture, or feature vectors of one, in the place of a text."""

    source: str
    target: str | None = None
    place: str = ""
    language: str | None = None
    references: tuple[str, ...] = ()
    picture: Picture | None = None
    steps: Steps | None = None

    @property
    def accepted(self) -> tuple[str, ...]:
        """The targets that are right."""
        return self.references or (self.target or "",)

    @property
    def key(self) -> str:
        if self.picture is not None:
            return self.picture.digest
        return self.source if self.steps is None else self.steps.key

    @property
    def title(self) -> str:
        """The source as an answer names it."""
        if self.picture is not None:
            return self.picture.name
        return self.source if self.steps is None else str(self.steps)

    @property
    def stratum(self) -> str | None:
        return None

    @property
    def sides(self) -> tuple[str, ...]:
        return (self.source, self.target or "")

    @property
    def size(self) -> int:
        return len(self.source) or len(self.target or "")


class WordRecord:
    """The properties of a record of a few words, which has no label and no second side."""

    __slots__ = ()

    @property
    def key(self) -> str:
        raise NotImplementedError

    @property
    def stratum(self) -> str | None:
        return None

    @property
    def sides(self) -> tuple[str, ...]:
        return ()

    @property
    def size(self) -> int:
        return len(self.key)


@dataclass(frozen=True, slots=True)
class Similarity(WordRecord):
    """Two words, and the similarity that people gave them."""

    first: str
    second: str
    score: float
    place: str = ""

    @property
    def key(self) -> str:
        return f"{self.first} {self.second}"


@dataclass(frozen=True, slots=True)
class Analogy(WordRecord):
    """Four words: the first is to the second as the third is to the fourth."""

    words: tuple[str, ...]
    section: str = ""
    place: str = ""

    @property
    def key(self) -> str:
        return " ".join(self.words)


Record: TypeAlias = Text | Labelled | ManyLabelled | Measured | Tagged | Pair | Similarity | Analogy | Series
"""One example of any task."""

KINDS: dict[str, Callable[..., Record]] = {
    kind.__name__: kind for kind in (Text, Labelled, ManyLabelled, Measured, Tagged, Pair, Similarity, Analogy, Series)
}


def labels_of(record: Record) -> tuple[str, ...]:
    """The labels of a whole record; none where it has another kind of answer."""
    if isinstance(record, ManyLabelled):
        return record.labels or ()
    return () if record.stratum is None else (record.stratum,)


def as_values(record: Record) -> list[Any]:
    """Return a record as plain JSON values."""
    values = (getattr(record, field.name) for field in fields(record))
    return [type(record).__name__, *(value.tree() if isinstance(value, Steps | Picture) else value for value in values)]


def from_values(values: list[Any]) -> Record:
    """Return the record that `as_values` was called with."""
    kind, *parts = values
    return KINDS[kind](*map(_from_value, parts))


def _from_value(value: Any) -> Any:
    if isinstance(value, dict):
        return Picture.of_tree(value) if "digest" in value else Steps.of_tree(value)
    return tuple(value) if isinstance(value, list) else value
