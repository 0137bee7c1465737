"""Ctrl-C, SIGTERM, and SIGHUP of a terminal that is closed: finish the step, save, go."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any


class Interrupt:
    """Inside the block the first SIGINT, SIGTERM or SIGHUP only sets `signal`; a second one interrupts as usual.

    A SIGHUP that is ignored, as nohup has it, stays so. Python allows handlers in the main thread only; in any other
    one this does nothing.
    """

    def __init__(self) -> None:
        self.signal = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            for number in numbers():
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.signal:
            raise KeyboardInterrupt
        self.signal = number


def numbers() -> Iterator[int]:
    """The signals that ask a training to end; Windows has no SIGHUP."""
    yield from (signal.SIGINT, signal.SIGTERM)
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        yield signal.SIGHUP
