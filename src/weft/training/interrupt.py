"""Ctrl-C, SIGTERM and SIGHUP: the training finishes its update, saves and ends."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any


class Interrupt:
    """Inside the block the first SIGINT, SIGTERM or SIGHUP only sets `signal`; a second one raises KeyboardInterrupt.

    A SIGHUP that is ignored, as under nohup, stays ignored. Python allows handlers in the main thread only; in any
    other thread this does nothing.
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
    """Yield the signals that end a training; Windows has no SIGHUP."""
    yield from (signal.SIGINT, signal.SIGTERM)
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        yield signal.SIGHUP
