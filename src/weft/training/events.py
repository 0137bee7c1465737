"""What happens in a training, as values that a journal writes and a terminal shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from weft.training.step import Step


@dataclass(frozen=True)
class Started:
    """The data is read and the model is built."""

    task: str
    examples: int
    valid: int
    parameters: int
    steps: int
    steps_per_epoch: int
    device: str
    notes: tuple[str, ...]
    done: int = 0
    """Updates that were made before, in a run that goes on."""
    metric: str = ""
    """The validation score by which models are chosen."""


@dataclass(frozen=True)
class Measuring:
    """The model is about to be scored, which may take a while."""

    what: str


@dataclass(frozen=True)
class Validated:
    """The model was scored on the validation data; `best` if better than ever before.

    `shown` are the names of the scores that mean something for the data; without them all do.
    """

    step: int
    metrics: dict[str, float]
    best: bool
    shown: tuple[str, ...] = ()


@dataclass(frozen=True)
class Saving:
    """A checkpoint of this update is about to be taken, which counts what was recorded: all of it must be written."""

    step: int


@dataclass(frozen=True)
class Ended:
    """The last event: why training stopped. `signal` is the number of the signal that came, or 0.

    One that came while the report was made changed nothing: the run is `finished`.
    """

    step: int
    reason: str
    signal: int = 0
    finished: bool = False

    @property
    def interrupted(self) -> bool:
        """Whether a signal ended the training, so that there is something left to do."""
        return bool(self.signal) and not self.finished


Event: TypeAlias = Started | Step | Measuring | Validated | Saving | Ended
