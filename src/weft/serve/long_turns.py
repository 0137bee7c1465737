"""Threads in which turns with long inputs are computed, so that the other models of the process are not held up.

A transformer reads n tokens in a time that grows with n², and nothing can stop it on the way. The threads have a lower
priority: the engine's own thread, which computes for all others, runs first.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final

from weft.serve.logs import log
from weft.training import set_threads

MAX_SHORT_SIZE: Final = 1_000
"""Characters, or numbers, of an input that the engine's own thread computes: some milliseconds."""

NICENESS: Final = 10
"""Added to the niceness of the process; the threads of OpenMP that these threads start have it too."""

Turn = Callable[[], int]
Report = Callable[[int], None]


class LongTurns:
    """Computes turns beside the engine, each in a thread that is free or new."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.free: list[SimpleQueue[tuple[Turn, Report]]] = []

    def start(self, turn: Turn, report: Report) -> None:
        """Begin a turn; `report` is called with its result in its thread."""
        if self.free:
            queue = self.free.pop()
        else:
            queue = SimpleQueue()
            threading.Thread(target=self._run, args=(queue,), name="weft-long-turns", daemon=True).start()
        queue.put((turn, report))

    def _run(self, queue: SimpleQueue[tuple[Turn, Report]]) -> None:
        if sys.platform == "linux":  # elsewhere a priority is that of the whole process
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), min(19, os.nice(0) + NICENESS))
        set_threads(self.threads)  # OpenMP counts the threads of each caller by itself
        while True:
            turn, report = queue.get()
            together = 0
            try:
                together = turn()
            except Exception as error:  # a mistake in weft must not end the service
                log("engine failed", level=logging.ERROR, error=error)
            self.free.append(queue)
            report(together)
