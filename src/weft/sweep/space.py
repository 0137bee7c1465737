"""The search space of a sweep: `key=LOW..HIGH` is a range, `key=a,b,c` a choice.

A range of whole numbers yields whole numbers. A range is searched on a logarithmic scale if it is written with an e, as
rates are, or if HIGH is at least a hundred times LOW.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from weft.config.tree import parse_value
from weft.errors import ConfigError

if TYPE_CHECKING:
    import optuna

Value: TypeAlias = bool | int | float | str

NUMBER = r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
RANGE = re.compile(rf"({NUMBER})\.\.({NUMBER})")
LOGARITHMIC_RATIO = 100
"""The least HIGH / LOW of a range that is searched on a logarithmic scale."""


@dataclass(frozen=True)
class Range:
    """All numbers from low to high, both included."""

    path: str
    low: int | float
    high: int | float
    logarithmic: bool

    @property
    def ends(self) -> tuple[Value, ...]:
        """The values that are checked before anything is trained."""
        return self.low, self.high

    def suggest(self, trial: optuna.Trial) -> Value:
        if isinstance(self.low, int) and isinstance(self.high, int):
            return trial.suggest_int(self.path, self.low, self.high, log=self.logarithmic)
        return trial.suggest_float(self.path, self.low, self.high, log=self.logarithmic)

    def tree(self) -> dict[str, Any]:
        return {"path": self.path, "low": self.low, "high": self.high, "logarithmic": self.logarithmic}


@dataclass(frozen=True)
class Choice:
    """One of several values."""

    path: str
    values: tuple[Value, ...]

    @property
    def ends(self) -> tuple[Value, ...]:
        return self.values

    def suggest(self, trial: optuna.Trial) -> Value:
        found = trial.suggest_categorical(self.path, self.values)
        assert found is not None
        return found

    def tree(self) -> dict[str, Any]:
        return {"path": self.path, "values": list(self.values)}


Dimension: TypeAlias = Range | Choice


def read_space(words: Iterable[str]) -> tuple[list[Dimension], list[str]]:
    """Return the dimensions among the words of a command, and the other words."""
    dimensions: list[Dimension] = []
    rest: list[str] = []
    for word in words:
        path, equals, text = word.partition("=")
        if equals and (match := RANGE.fullmatch(text)):
            dimensions.append(_range(word, path, *match.groups()))
        elif equals and "," in text and text[0] not in "[{\"'":
            dimensions.append(_choice(word, path, text))
        else:
            rest.append(word)
    paths = [dimension.path for dimension in dimensions]
    if twice := sorted({path for path in paths if paths.count(path) > 1}):
        raise ConfigError("is given twice", where=twice[0], cure="keep one range or one list of values")
    return dimensions, rest


def _range(word: str, path: str, low_text: str, high_text: str) -> Range:
    low, high = _number(low_text), _number(high_text)
    if low >= high:
        raise ConfigError(f"{low_text} is not below {high_text}", where=word, cure=f"write {path}=LOW..HIGH")
    exponent = "e" in f"{low_text}{high_text}".lower()
    if exponent and low <= 0:
        raise ConfigError(f"{low_text} has no logarithm", where=word, cure="begin above 0, or write it without an e")
    return Range(path, low, high, low > 0 and (exponent or high / low >= LOGARITHMIC_RATIO))


def _number(text: str) -> int | float:
    return int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)


def _choice(word: str, path: str, text: str) -> Choice:
    values = tuple(parse_value(part) for part in text.split(","))
    for value in values:
        if not isinstance(value, Value) or value == "":
            raise ConfigError(f"{value!r} is not a plain value", where=word, cure=f"write {path}=a,b,c")
    if len(set(values)) < len(values):
        raise ConfigError("has a value twice", where=word)
    return Choice(path, values)
