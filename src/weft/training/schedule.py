"""Learning-rate schedules: the share of the peak rate for each update, counted from 1.

Each begins with a rise over `warmup` updates, w(i) = min(1, i / warmup); p is the progress from there to `total`.

    constant        w(i)
    cosine          w(i) · (1 + cos π p) / 2
    linear          w(i) · (1 - p)
    inverse_sqrt    w(i) · √(warmup / i)
    plateau         w(i) · factor^n         n cuts so far, each after `patience` validations without progress
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final, Protocol


class Schedule(Protocol):
    """The share of the peak rate that an update uses."""

    def __call__(self, step: int) -> float: ...


@dataclass(frozen=True)
class ConstantSchedule:
    """Rise over `warmup` updates, then stay."""

    warmup: int
    total: int

    def __call__(self, step: int) -> float:
        return _rise(step, self.warmup)


@dataclass(frozen=True)
class CosineSchedule:
    """Rise, then fall to zero at `total` along half a cosine."""

    warmup: int
    total: int

    def __call__(self, step: int) -> float:
        return _rise(step, self.warmup) * 0.5 * (1 + math.cos(math.pi * _progress(step, self.warmup, self.total)))


@dataclass(frozen=True)
class LinearSchedule:
    """Rise, then fall to zero at `total` along a straight line."""

    warmup: int
    total: int

    def __call__(self, step: int) -> float:
        return _rise(step, self.warmup) * (1 - _progress(step, self.warmup, self.total))


@dataclass(frozen=True)
class InverseSqrtSchedule:
    """Rise, then fall as √(warmup / step)."""

    warmup: int
    total: int

    def __call__(self, step: int) -> float:
        start = max(1, self.warmup)
        return _rise(step, self.warmup) * math.sqrt(start / max(step, start))


@dataclass
class Plateau:
    """Rise, stay, and be cut by `factor` after every `patience` validations in a row without progress.

    The caller must report every validation by `observe`. The count starts anew after a cut.
    """

    warmup: int
    total: int
    factor: float = 0.5
    patience: int = 2
    since: int = field(default=0, init=False)
    cuts: int = field(default=0, init=False)

    def __call__(self, step: int) -> float:
        return _rise(step, self.warmup) * math.pow(self.factor, self.cuts)

    def observe(self, *, progress: bool) -> None:
        """Count a validation; `progress` means a better metric or a lower loss than all before it."""
        self.since = 0 if progress else self.since + 1
        if self.since >= self.patience:
            self.since, self.cuts = 0, self.cuts + 1

    def state(self) -> dict[str, int]:
        """The values for a checkpoint."""
        return {"since": self.since, "cuts": self.cuts}

    def restore(self, state: dict[str, float]) -> None:
        self.since, self.cuts = int(state["since"]), int(state["cuts"])


def _rise(step: int, warmup: int) -> float:
    return min(1.0, step / warmup) if warmup else 1.0


def _progress(step: int, warmup: int, total: int) -> float:
    """The progress from the end of the warm-up to `total`, between 0 and 1."""
    return min(1.0, max(0.0, (step - warmup) / max(1, total - warmup)))


SCHEDULES: Final[
    dict[str, type[ConstantSchedule | CosineSchedule | InverseSqrtSchedule | LinearSchedule | Plateau]]
] = {
    "constant": ConstantSchedule,
    "cosine": CosineSchedule,
    "inverse_sqrt": InverseSqrtSchedule,
    "linear": LinearSchedule,
    "plateau": Plateau,
}
"""Schedules by the names in a config file; each is built from (warmup, total), and a plateau has options."""
