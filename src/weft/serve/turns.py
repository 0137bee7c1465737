"""On a GPU, the event loop and the engine's thread take turns with the interpreter.

Python runs one thread at a time. Two threads that both have work exchange the interpreter at every system call and at
every operation of torch, and each exchange has to wake a thread, which takes longer than a small operation. So the
event loop goes on until it has nothing to do, then the engine computes a piece of its work, and so on. Neither waits
for the other for long: after some milliseconds both run, until the turn of the other has ended. So nobody can keep the
engine from its work with requests that cost it nothing.

With a GPU, whose kernels the engine only starts, this doubles the requests of a small model. On a CPU the operations
themselves take most of the time, without the interpreter, and there the two threads run at the same time.
"""

from __future__ import annotations

import asyncio
import selectors
import sys
import threading
from typing import Any, Final, Literal

Who = Literal["loop", "engine"]

PATIENCE: Final[dict[Who, float]] = {"loop": 0.02, "engine": 0.003}
"""Seconds that each waits for the other's turn to end. The loop waits for a piece of a search or a small batch; the
engine waits until some of those who have just been answered have asked again."""

OTHER: Final[dict[Who, Who]] = {"loop": "engine", "engine": "loop"}


class Turns:
    """Whose turn it is."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.turn: Who | None = None
        self.next: Who | None = None
        """Who waits, or has been given work, while the other had its turn."""
        self.waiting: set[Who] = set()
        self.impatient: set[Who] = set()
        """Who has waited for too long in the present turn of the other, and does not wait for its end any more."""
        self.loop_takes_part = False

    def begin(self, who: Who) -> None:
        """Wait until the other's turn has ended, or until the patience has; without effect in one's own turn."""
        other = OTHER[who]
        with self.changed:
            if self.turn != who and who not in self.impatient:
                self.waiting.add(who)
                if not self.changed.wait_for(lambda: other not in (self.turn, self.next), PATIENCE[who]):
                    self.impatient.add(who)
                self.waiting.discard(who)
            if self.turn is None:
                self.turn = who
            self.next = None if self.next == who else self.next

    def end(self, who: Who) -> None:
        """End one's turn; the other has the next, if it waits for it."""
        with self.changed:
            if who in (self.turn, self.next):  # the next, where it has not waited for the end of the other's turn
                self.turn = None if self.turn == who else self.turn
                self.impatient.discard(OTHER[who])
                self.next = OTHER[who] if OTHER[who] in self.waiting else None
                self.changed.notify()

    def invite_loop(self) -> None:
        """Let the event loop have the next turn: it has been given work."""
        with self.changed:
            if self.loop_takes_part and self.turn != "loop":
                self.next = "loop"

    def new_loop(self) -> asyncio.AbstractEventLoop:
        """Return an event loop that takes turns."""
        if sys.platform == "win32":  # its loop has no selector
            return asyncio.new_event_loop()
        self.loop_takes_part = True
        return asyncio.SelectorEventLoop(_Selector(self))


class _Selector(selectors.DefaultSelector):
    """Waits for connections. While it waits it is not the event loop's turn."""

    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self.turns = turns

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, Any]]:
        found = super().select(0)
        if found or timeout == 0:
            return found
        self.turns.end("loop")
        found = super().select(timeout)
        self.turns.begin("loop")
        return found
