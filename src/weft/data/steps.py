"""Sequences of feature vectors: the numbers (T, D) of T steps, checked one by one; the statistics of features.

x' = (x - mean) / scale          scale = standard deviation over all steps, or 1 of a feature that never changes
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from weft import limits
from weft.errors import DataError, counted

Numbers: TypeAlias = NDArray[np.float64]

MAX_NUMBER = 1e30
"""The largest absolute value of a number in the data: its square still fits into float64, and its standard deviation
into float32."""

ROUNDING = 1e-14
"""Numbers that differ by less than this share of them are the same."""

EXAMPLE = "a sequence is a list of steps, each a list of as many numbers: [[0.1, 2.5], [0.3, 2.4]]"


@dataclass(frozen=True, slots=True)
class Steps:
    """T steps of `width` numbers each, as the bytes of float64 numbers: records stay small, equal and hashable."""

    width: int
    content: bytes

    @classmethod
    def of(cls, array: Numbers) -> Self:
        """The steps of an array (T, D) of finite numbers."""
        return cls(array.shape[1], np.ascontiguousarray(array, dtype="<f8").tobytes())

    @property
    def array(self) -> Numbers:
        """(T, D)."""
        return np.frombuffer(self.content, dtype="<f8").reshape(-1, self.width)

    @property
    def size(self) -> int:
        """The count of all numbers."""
        return len(self.content) // 8

    @property
    def key(self) -> str:
        """A hash of width and content."""
        return hashlib.sha256(self.content + b"%d" % self.width).hexdigest()

    def __len__(self) -> int:
        return self.size // self.width

    @property
    def names(self) -> tuple[str, ...]:
        """The number of each step, from 0, where a word would stand."""
        return tuple(map(str, range(len(self))))

    def __str__(self) -> str:
        return f"{counted(len(self), 'step')} of {counted(self.width, 'number')}"

    def tree(self) -> dict[str, Any]:
        """Plain JSON values, for `of_tree`."""
        return {"width": self.width, "content": base64.b64encode(self.content).decode()}

    @classmethod
    def of_tree(cls, tree: Mapping[str, Any]) -> Self:
        return cls(int(tree["width"]), base64.b64decode(tree["content"]))


def read_number(value: Any, name: str, place: str) -> float:
    """A number of the data: a number of Python, or a text that spells one; anything else is an error with its place."""
    value = value.item() if hasattr(value, "item") and not isinstance(value, str) else value
    found = math.nan
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        try:
            found = float(value)
        except (ValueError, OverflowError):
            found = math.nan
    if not abs(found) <= MAX_NUMBER:  # NaN is not
        shown = "empty" if value in ("", None) else f"{value!r:.40}"
        cure = f"write a number between ±{MAX_NUMBER:g}, such as 2.5 or 1e-3, or remove the example"
        raise DataError(f'"{name}" is {shown}, not a number', where=place, cure=cure)
    return found


def read_steps(value: Any, name: str, place: str) -> Steps:
    """The steps of nested lists or of an array (T, D); a list of plain numbers has steps of one number each."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if not isinstance(value, Sequence) or isinstance(value, str | bytes) or not value:
        shown = "empty" if isinstance(value, Sequence) and not value else f"{value!r:.40}"
        raise DataError(f'"{name}" is {shown}', where=place, cure=EXAMPLE)
    rows = []
    for number, step in enumerate(value):
        step = step.tolist() if hasattr(step, "tolist") else step
        one = [step] if isinstance(step, int | float | str) or step is None else step
        if not isinstance(one, Sequence) or not one:
            raise DataError(f'step {number} of "{name}" is {one!r:.40}', where=place, cure=EXAMPLE)
        rows.append([read_number(item, f"{name}[{number}][{index}]", place) for index, item in enumerate(one)])
        if len(one) != len(rows[0]):
            what = f'step {number} of "{name}" has {counted(len(one), "number")}, step 0 has {len(rows[0])}'
            raise DataError(what, where=place, cure="give each step a number for every feature")
    return Steps.of(np.array(rows))


def pick_steps(look_up: Callable[[str | int], Any], column: str | int | list[str | int], place: str) -> Steps:
    """The steps in one value of a record, or in several, each with the numbers of one feature at all steps."""
    if not isinstance(column, list):
        return read_steps(look_up(column), str(column), place)
    features = [read_steps(look_up(one), str(one), place).array for one in column]
    if len({len(feature) for feature in features}) > 1:
        lengths = ", ".join(f"{one} has {len(feature):,}" for one, feature in zip(column, features, strict=True))
        raise DataError(f"features of different length: {lengths}", where=place, cure="give one number for each step")
    return Steps.of(np.concatenate(features, axis=1))


def check_width(steps: Steps, width: int, place: str) -> None:
    """Raise if steps do not have as many numbers as those of the training data."""
    if steps.width != width:
        what = f"{counted(steps.width, 'number')} in a step, where the training data has {width}"
        raise DataError(what, where=place or None, cure="give each step a number for every feature")


def deviation_of(numbers: Numbers) -> float:
    """The standard deviation of numbers (N,), also of numbers so small that their squares are 0; 0 without any."""
    largest = float(np.abs(numbers).max(initial=0.0))
    return float((numbers / largest).std()) * largest if largest else 0.0


@dataclass(frozen=True)
class Statistics:
    """The mean and the scale of each of D numbers in the training data."""

    mean: tuple[float, ...]
    scale: tuple[float, ...]

    @classmethod
    def of(cls, arrays: Iterable[Numbers]) -> Self:
        """The statistics of the columns of arrays (N, D), computed in one pass: sums of the distances to the first row,
        because those of large numbers would lose the digits in which they differ."""
        first: Numbers | None = None
        total = squares = np.zeros(0)
        count = 0
        for array in arrays:
            if first is None:
                first = array[0].copy()
                total = squares = np.zeros(len(first))
            distances = array - first
            total, squares = total + distances.sum(0), squares + np.square(distances).sum(0)
            count += len(array)
        if first is None:
            raise DataError("no numbers to learn from", where="data.train", cure="give at least one example")
        mean = total / count
        variance = np.maximum(squares / count - np.square(mean), 0.0)
        constant = variance <= np.square(ROUNDING * first)
        scale = np.where(constant, 1.0, np.sqrt(np.where(constant, 1.0, variance)))
        return cls(tuple((first + mean).tolist()), tuple(scale.tolist()))

    def standardise(self, array: Numbers) -> NDArray[np.float32]:
        """(…, D) -> the same in units of the scale from the mean."""
        found: NDArray[np.float32] = ((array - np.array(self.mean)) / np.array(self.scale)).astype(np.float32)
        return found

    def restore(self, array: Numbers) -> Numbers:
        """The inverse of `standardise`."""
        found: Numbers = array * np.array(self.scale) + np.array(self.mean)
        return found

    def tree(self) -> dict[str, list[float]]:
        return {"mean": list(self.mean), "scale": list(self.scale)}

    @classmethod
    def of_tree(cls, tree: Any) -> Self:
        """Read what `tree` returned; raises a ValueError for anything else."""
        if not isinstance(tree, dict) or set(tree) != {"mean", "scale"}:
            raise ValueError("has no mean and scale")
        for numbers in tree.values():
            if not isinstance(numbers, list) or not 1 <= len(numbers) <= limits.SIZE:
                raise ValueError("has no list of numbers")
            if not all(type(number) is float and abs(number) <= MAX_NUMBER for number in numbers):
                raise ValueError("has something else than finite numbers")
        if len(tree["mean"]) != len(tree["scale"]) or min(tree["scale"]) <= 0:
            raise ValueError("has a scale that is not positive, or not as many as means")
        return cls(tuple(tree["mean"]), tuple(tree["scale"]))
