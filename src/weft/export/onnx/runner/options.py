"""The options of a search, checked: those of `[decode]` that the runner has."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from weft import limits
from weft.errors import ConfigError, did_you_mean

SAMPLING: Final = {"temperature", "top_k", "top_p", "min_p"}
BEAM: Final = {"beam", "stop", "finished"}
LACKING: Final[Mapping[str, object]] = {
    "groups": 1,
    "diversity": 0.5,
    "stop_at": [],
    "require": (),
    "forbid": (),
}
"""Options of weft that the runner does not have, and what they are when they do nothing."""


@dataclass(frozen=True)
class SearchOptions:
    """`[decode]`, as docs/decoding.md explains it."""

    beam: int = 4
    length_penalty: float = 1.0
    max_length: int = 256
    min_length: int = 0
    n_best: int = 1
    stop: str = "bound"
    finished: int | None = None
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    copy_unknown: bool = False
    sample: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0

    @classmethod
    def of(cls, decode: Mapping[str, Any]) -> SearchOptions:
        """The settings of a run, those that the runner has."""
        names = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in decode.items() if name in names}).checked()

    @property
    def width(self) -> int:
        """Hypotheses of a sentence; when sampling, the texts that are drawn."""
        return self.n_best if self.sample else self.beam

    @property
    def penalises(self) -> bool:
        return self.repetition_penalty != 1.0 or self.frequency_penalty != 0.0 or self.presence_penalty != 0.0

    @property
    def ends(self) -> int:
        """Finished hypotheses that end a sentence, except where it stops by the bound."""
        return self.finished if self.finished is not None and self.width > 1 else self.width

    @property
    def by_bound(self) -> bool:
        return self.stop == "bound" and self.width > 1

    def changed(self, options: Mapping[str, Any]) -> SearchOptions:
        """With other values: a beam ends sampling, a temperature starts it."""
        names = [field.name for field in fields(self)]
        given = {}
        for name, value in options.items():
            if name in LACKING:
                if value and value != LACKING[name]:
                    raise ConfigError("is not an option of exported models", where=name, cure="use weft predict")
            elif name not in names:
                raise ConfigError("is no option", where=name, cure=did_you_mean(name, names))
            else:
                given[name] = value
        if "sample" not in given and (SAMPLING | BEAM) & given.keys():
            given["sample"] = bool(SAMPLING & given.keys())
        dropped = () if "sample" not in given else BEAM if given["sample"] else SAMPLING
        defaults = {field.name: field.default for field in fields(self) if field.name in dropped}
        return replace(self, **{**defaults, **given}).checked()

    def checked(self) -> SearchOptions:
        """The options; raises a ConfigError where one is wrong."""
        whole = {
            "beam": (1, limits.BEAM),
            "max_length": (1, limits.LENGTH_TOKENS),
            "min_length": (0, limits.LENGTH_TOKENS),
            "n_best": (1, limits.BEAM),
            "top_k": (0, limits.VOCABULARY),
            "seed": (0, 2**63 - 1),
            **({} if self.finished is None else {"finished": (1, limits.BEAM)}),
        }
        real = {
            "length_penalty": (0.0, limits.LENGTH_PENALTY),
            "repetition_penalty": (limits.TEMPERATURE, limits.NUMBER),
            "frequency_penalty": (-limits.NUMBER, limits.NUMBER),
            "presence_penalty": (-limits.NUMBER, limits.NUMBER),
            "temperature": (limits.TEMPERATURE, limits.NUMBER),
            "top_p": (math.ulp(0.0), 1.0),
            "min_p": (0.0, 1.0),
        }
        for name, (least, most) in {**whole, **real}.items():
            value = getattr(self, name)
            right = type(value) is int if name in whole else type(value) in (int, float)
            if not right or not least <= value <= most:
                raise ConfigError("is out of range", where=f"{name} = {value!r:.40}", cure=f"{least:g} … {most:g}")
        for name in ("sample", "copy_unknown"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError("is neither true nor false", where=f"{name} = {getattr(self, name)!r:.40}")
        if self.stop not in ("bound", "finished"):
            raise ConfigError('is neither "bound" nor "finished"', where=f"stop = {self.stop!r:.40}")
        if not self.sample and self.n_best > self.beam:
            raise ConfigError(
                f"n_best = {self.n_best} is more than beam = {self.beam}", where="n_best", cure="raise beam"
            )
        if self.min_length > self.max_length:
            what = f"min_length = {self.min_length} is more than max_length = {self.max_length}"
            raise ConfigError(what, where="min_length", cure="lower it")
        if not self.sample and self.finished is not None and self.finished < min(self.n_best, self.width):
            what = f"finished = {self.finished} is less than n_best = {self.n_best}"
            raise ConfigError(what, where="finished", cure="raise it")
        return self
