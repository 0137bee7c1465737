"""Makes a record of an input and its answer, as a table or Python has them: a label, several labels, or a number."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from weft.data.records import Labelled, ManyLabelled, Measured, Tagged
from weft.data.sources import has_surrogate
from weft.data.steps import Steps, read_number
from weft.errors import DataError, counted


class Whole(NamedTuple):
    """The input of a record: a text, two texts, or steps."""

    text: str
    second: str | None = None
    steps: Steps | None = None


def read_labels(value: Any, separator: str, name: str, place: str) -> tuple[str, ...]:
    """The labels of a list, of a JSON list in a text, or of a text with separators; an empty one has none."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, str):
        if value.lstrip().startswith("["):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                cure = 'write ["one", "two"], or the labels with separators'
                raise DataError(f'"{name}" is no JSON list: {value:.40}', where=place, cure=cure) from None
        else:
            value = [part for part in value.split(separator) if part.strip()]
    elif isinstance(value, bool | int) or (isinstance(value, float) and value == value):
        value = [value]
    if not isinstance(value, Collection) or isinstance(value, bytes | Mapping):
        cure = 'write a list such as ["one", "two"]; [] or an empty text has no label'
        raise DataError(f'"{name}" is {value!r:.40}, not a list of labels', where=place, cure=cure)
    found = sorted(value, key=str) if isinstance(value, set | frozenset) else list(value)
    return tuple(dict.fromkeys(_label(one, name, place) for one in found))


def _label(value: Any, name: str, place: str) -> str:
    """One label as text; numbers, true and false as JSON writes them."""
    value = value.item() if hasattr(value, "item") and not isinstance(value, str) else value
    if not isinstance(value, str | bool | int | float) or value != value:
        raise DataError(f'a label in "{name}" is {value!r:.40}', where=place, cure="a label is a text or a number")
    label = value.strip() if isinstance(value, str) else json.dumps(value)
    if not label or has_surrogate(label):
        raise DataError(f'a label in "{name}" is empty or no text', where=place, cure="remove it")
    return label


def _read_tags(value: Any, count: int, name: str, place: str) -> tuple[str, ...]:
    """A label for each of so many steps."""
    value = value.tolist() if hasattr(value, "tolist") else value
    tags = tuple(_label(tag, name, place) for tag in value) if isinstance(value, list | tuple) else ()
    if len(tags) != count:
        what = f'"{name}" has {counted(len(tags), "label")} for {counted(count, "step")}'
        raise DataError(what, where=place, cure="give a list with a label for each step")
    return tags


def make_record(kind: type, whole: Whole, answer: Any, *, name: str, separator: str, place: str) -> Any:
    """The record of that kind with an input and its answer; `name` is the column of the answer."""
    text, second, steps = whole
    if kind is Tagged:
        assert steps is not None
        return Tagged(steps.names, _read_tags(answer, len(steps), name, place), place, steps)
    if kind is Measured:
        return Measured(text, read_number(answer, name, place), place, second, steps)
    if kind is ManyLabelled:
        return ManyLabelled(text, read_labels(answer, separator, name, place), place, second, steps)
    return Labelled(text, answer, place, second, steps)
