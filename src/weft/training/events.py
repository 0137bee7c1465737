"""Events of a training: values that the journal writes and the terminal shows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from weft.tasks.task import Origin
from weft.training.numbers import Numbers


@dataclass(frozen=True)
class Started:
    """The data is read and the model is built."""

    task: str
    examples: int
    valid: int
    parameters: int | None
    """None where training decides how many there are, as of a model that counts."""
    steps: int
    steps_per_epoch: int
    device: str
    notes: tuple[str, ...]
    done: int = 0
    """Updates that were made before, in a run that is resumed."""
    metric: str = ""
    """The validation score by which models are chosen."""


@dataclass(frozen=True)
class Update:
    """One update of the model: its tokens, its learning rate, its time including its batches, and its numbers."""

    number: int
    tokens: int
    rate: float
    seconds: float
    numbers: Numbers
    origins: tuple[Origin, ...] = ()
    """The examples of the batches that this process computed, where they are known."""
    notes: tuple[str, ...] = ()
    """Messages for the user about this update or an earlier one."""

    @property
    def loss(self) -> float:
        """Mean loss per predicted token; blocks until it has arrived from the device."""
        return self.numbers.read()[0]

    @property
    def gradient(self) -> float:
        """Norm of the gradient before clipping; blocks until it has arrived from the device."""
        return self.numbers.read()[1]


class Awaited:
    """A queue of updates whose numbers may still be on the device."""

    def __init__(self) -> None:
        self._updates: deque[Update] = deque()

    def add(self, update: Update) -> None:
        self._updates.append(update)

    def arrived(self) -> Iterator[Update]:
        """Remove and yield the first updates, as long as their numbers have arrived."""
        while self._updates and self._updates[0].numbers.arrived:
            yield self._updates.popleft()

    def all(self) -> Iterator[Update]:
        """Remove and yield every update; reading its numbers may block."""
        while self._updates:
            yield self._updates.popleft()


@dataclass(frozen=True)
class Measuring:
    """The model is about to be scored, which may take a while."""

    what: str


@dataclass(frozen=True)
class Validated:
    """The model was scored on the validation data; `best` if it is the best model so far.

    `shown` names the scores to print, those that are meaningful for this data; empty means all.
    """

    step: int
    metrics: dict[str, float]
    best: bool
    shown: tuple[str, ...] = ()


@dataclass(frozen=True)
class Saving:
    """A checkpoint of this update follows. It stores the length of the journal, so every line must be written now."""

    step: int


TIME_IS_OVER: Final = "the time is over"
"""The reason why training stopped at `train.seconds`."""


@dataclass(frozen=True)
class Ended:
    """The last event: why training stopped. `signal` is the number of the signal received, or 0.

    A signal during the final report has no effect: the run is `finished`.
    """

    step: int
    reason: str
    signal: int = 0
    finished: bool = False

    @property
    def interrupted(self) -> bool:
        """Whether a signal ended the training, so that the run can be resumed."""
        return bool(self.signal) and not self.finished


Event: TypeAlias = Started | Update | Measuring | Validated | Saving | Ended
