"""The common part of the journal and TensorBoard: which events they record, and when."""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from weft.errors import Fault
from weft.training.events import Awaited, Ended, Event, Saving, Started, Update, Validated

EVERY_UPDATES: Final = 10
"""Every tenth update is recorded."""


class Recorder:
    """Consumes events. An update is recorded when its numbers have arrived from the device, at the latest before the
    next validation.
    """

    def __init__(self) -> None:
        self.awaited = Awaited()

    def write(self, event: Event) -> None:
        match event:
            case Started():
                self.start(event)
            case Update():
                if event.number % EVERY_UPDATES == 0 or event.number == 1:
                    self.awaited.add(event)
                self._updates(self.awaited.arrived())
            case Validated():
                self._updates(self.awaited.all())
                self.validation(event)
            case Saving():
                self._updates(self.awaited.all())
            case Ended():
                self._updates(self.awaited.all())
            case _:
                pass
        self.flush()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # A device or a disk that has failed may be what ended the training.
        with suppress(RuntimeError, *([Fault] if kind else [])):
            self._updates(self.awaited.arrived())
            self.flush()
        self.close()

    def _updates(self, updates: Iterable[Update]) -> None:
        for update in updates:
            speed = update.tokens / max(update.seconds, 1e-9)
            values = {"loss": update.loss, "rate": update.rate, "gradient": update.gradient, "tokens_per_second": speed}
            # JSON has no other numbers, and an update with them was skipped.
            self.update(update.number, {name: value for name, value in values.items() if math.isfinite(value)})

    def start(self, event: Started) -> None:
        """Called when a training begins or is resumed."""

    def update(self, step: int, values: dict[str, float]) -> None:
        raise NotImplementedError

    def validation(self, event: Validated) -> None:
        raise NotImplementedError

    def flush(self) -> None:
        """Called after every event, to write what it has brought."""

    def close(self) -> None:
        raise NotImplementedError
