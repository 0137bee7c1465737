"""The engine: one thread that computes for all requests of a process, and the queue in front of it.

One thread, because a model's kernels already use all cores: two computations side by side would only slow each other
down. Groups (models and settings) take turns of a few milliseconds. Only a turn with a long input, of a server of
several models, is computed beside it (`LongTurns`); until it ends its model has no other turn.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from weft.serve.api_errors import Busy
from weft.serve.gil_turns import GilTurns
from weft.serve.groups import MAX_BATCH_INPUTS, BatchGroup, Group, SearchGroup
from weft.serve.logs import log
from weft.serve.long_turns import MAX_SHORT_SIZE, LongTurns
from weft.serve.metrics import Metrics
from weft.serve.tickets import Job, Outbox, Settings
from weft.training import set_threads

MAX_SEARCHES: Final = 8
"""Searches that run beside each other, each with its own settings; others wait."""

RATE_SECONDS: Final = 10.0

GATHER_SECONDS: Final = 0.003
"""Time to wait for further inputs after a batch of several: those who were just answered ask again together. An idle
server, or one with a single client, never waits."""


class Ended(NamedTuple):
    """A long turn that has ended: its group, and the inputs that were computed together."""

    settings: Settings
    together: int


class Engine:
    """Computes jobs in a thread of its own; with `beside` long turns in others."""

    def __init__(
        self, metrics: Metrics, *, max_queue: int, batch_tokens: int, threads: int = 0, beside: bool = False
    ) -> None:
        self.metrics, self.max_queue, self.batch_tokens, self.threads = metrics, max_queue, batch_tokens, threads
        self.long_turns = LongTurns(threads) if beside else None
        self.away: set[Any] = set()
        """Models whose turn is computed beside this thread. Until it ends no other thread touches their groups."""
        self.ended: list[Ended] = []
        self.groups: dict[Settings, Group] = {}
        self.arrived: deque[tuple[Settings, Sequence[Job]]] = deque()
        self.waiting = 0
        self.taken: deque[tuple[float, int]] = deque(maxlen=64)
        """Times at which inputs left the queue, and how many: the rate from which Retry-After is computed."""
        self.news = threading.Condition()
        self.closed = False
        self.gil_turns = GilTurns()
        self.gather_until = 0.0
        self.thread = threading.Thread(target=self._run, name="weft-engine", daemon=True)

    def start(self) -> None:
        """Begin to compute; called inside the event loop that waits for the results."""
        self.outbox = Outbox()
        self.thread.start()

    def close(self) -> None:
        """End the thread after its present turn."""
        with self.news:
            self.closed = True
            self.news.notify()
        if self.thread.is_alive():
            self.gil_turns.end("loop")
            self.thread.join(timeout=10)

    def submit(self, settings: Settings, jobs: Sequence[Job]) -> None:
        """Queue the inputs of a request; raise `Busy` where the queue is full."""
        with self.news:
            if self.waiting + len(jobs) > self.max_queue:
                raise Busy(429, f"{self.waiting:,} inputs wait already", after=self.patience())
            self.waiting += len(jobs)
            self.arrived.append((settings, jobs))
            self.news.notify()

    def patience(self) -> float:
        """The seconds in which the queue of now should be done."""
        now = time.monotonic()
        recent = [(at, count) for at, count in self.taken if now - at < RATE_SECONDS]
        if not recent:
            return 1.0
        rate = sum(count for _, count in recent) / max(0.1, now - recent[0][0])
        return self.waiting / rate

    @property
    def alive(self) -> bool:
        """Whether the thread still computes."""
        return self.thread.is_alive()

    def _run(self) -> None:
        set_threads(self.threads)  # OpenMP counts the threads of each caller by itself
        while not self.closed:
            try:
                self._round()
            except Exception as error:  # a mistake in weft must not end the service
                self.gil_turns.end("engine")
                self.outbox.deliver()
                log("engine failed", level=logging.ERROR, error=error)
                time.sleep(0.1)

    def _round(self) -> None:
        gathering = self.gather_until - time.monotonic()
        here = [group for group in self.groups.values() if group.served not in self.away]
        runnable = any(group.running or (group.queue and gathering <= 0) for group in here)
        with self.news:
            if not runnable and not self.closed and not self.ended and not self._startable():
                self.news.wait(max(0.0, gathering) if any(group.queue for group in here) else None)
        self.gil_turns.begin("engine")
        with self.news:
            ended, self.ended = self.ended, []
            arrived = self._startable()
            self.arrived = deque(one for one in self.arrived if one[0].model in self.away)
        for settings, together in ended:
            self.away.discard(settings.model)
            self._after(settings, together)
        for settings, jobs in arrived:
            self._group(settings).queue.extend(jobs)
        gathering = self.gather_until - time.monotonic()
        searches = sum(isinstance(group, SearchGroup) and group.running > 0 for group in self.groups.values())
        for settings, group in list(self.groups.items()):
            if group.served in self.away:
                continue
            if not group.running:
                begins = gathering <= 0 or len(group.queue) >= MAX_BATCH_INPUTS
                search = isinstance(group, SearchGroup)
                if not begins or (search and searches >= MAX_SEARCHES):
                    group.forget()
                    continue
                searches += search
            if self.long_turns is not None and group.largest() > MAX_SHORT_SIZE:
                self._start_long(settings, group)
                continue
            self.gil_turns.begin("engine")
            together = group.turn()
            self.gil_turns.end("engine")
            self._after(settings, together)
        self._count()
        self.gil_turns.end("engine")

    def _startable(self) -> list[tuple[Settings, Sequence[Job]]]:
        """The jobs that have arrived, without those of models whose turn is computed beside this thread."""
        return [one for one in self.arrived if one[0].model not in self.away]

    def _start_long(self, settings: Settings, group: Group) -> None:
        """Compute a turn of a group in another thread."""
        assert self.long_turns is not None
        self.away.add(group.served)

        def report(together: int) -> None:
            with self.news:
                self.ended.append(Ended(settings, together))
                self.news.notify()

        self.long_turns.start(group.turn, report)

    def _after(self, settings: Settings, together: int) -> None:
        """Pass on the results of a turn, and drop its group where nothing is left of it."""
        group = self.groups[settings]
        if self.outbox.calls:
            self.gil_turns.invite_loop()  # before it is woken: it may have ended before this thread runs again
            self.outbox.deliver()
        if together > 1 and not group.running:
            self.gather_until = time.monotonic() + GATHER_SECONDS
        if not group.queue and not group.running:
            del self.groups[settings]

    def _group(self, settings: Settings) -> Group:
        if settings not in self.groups:
            kind = SearchGroup if settings.kind == "write" else BatchGroup
            self.groups[settings] = kind(settings, batch_tokens=self.batch_tokens, on_batch=self.metrics.batch.observe)
        return self.groups[settings]

    def _count(self) -> None:
        waiting = sum(len(group.queue) for group in self.groups.values())
        with self.news:
            waiting += sum(len(jobs) for _, jobs in self.arrived)
            if waiting < self.waiting:
                self.taken.append((time.monotonic(), self.waiting - waiting))
            self.waiting = waiting
        self.metrics.queue.set(waiting)
        self.metrics.running.set(sum(group.running for group in self.groups.values()))
