"""On a GPU, the event loop and the engine's thread hold Python's interpreter lock (the GIL) in turns.

Two threads that both have work exchange the lock at every system call and at every operation of torch, and each
exchange has to wake a thread, which takes longer than a small operation. So the event loop runs until it has nothing to
do, then the engine computes a piece of its work, and so on. Each waits some milliseconds at most; then both run until
the turn of the other ends, so that a flood of cheap requests does not stop the engine.

With a GPU, whose kernels the engine only launches, this doubles the requests of a small model. On a CPU the operations
themselves take most of the time, without the lock, and the two threads run at the same time.
"""

from __future__ import annotations

import asyncio
import selectors
import sys
import threading
from typing import Any, Final, Literal

Side = Literal["loop", "engine"]

PATIENCE: Final[dict[Side, float]] = {"loop": 0.02, "engine": 0.003}
"""Seconds that each side waits for the end of the other's turn: the loop for a piece of a search or a small batch, the
engine until some of the clients that have just been answered have sent their next requests."""

OTHER: Final[dict[Side, Side]] = {"loop": "engine", "engine": "loop"}


class GilTurns:
    """The side that has its turn now, and those that wait."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.turn: Side | None = None
        self.next: Side | None = None
        """The side that has the next turn, because it waits or was given work during the turn of the other."""
        self.waiting: set[Side] = set()
        self.impatient: set[Side] = set()
        """The sides that have run out of patience in the present turn of the other, and do not wait for its end."""
        self.loop_takes_part = False

    def begin(self, side: Side) -> None:
        """Begin a turn after that of the other side, or when patience has run out; without effect in its own turn."""
        other = OTHER[side]
        with self.changed:
            if self.turn != side and side not in self.impatient:
                self.waiting.add(side)
                if not self.changed.wait_for(lambda: other not in (self.turn, self.next), PATIENCE[side]):
                    self.impatient.add(side)
                self.waiting.discard(side)
            if self.turn is None:
                self.turn = side
            self.next = None if self.next == side else self.next

    def end(self, side: Side) -> None:
        """End the turn of a side; the other side has the next, if it waits for it."""
        with self.changed:
            if side in (self.turn, self.next):  # it had the next turn, and has run without waiting for it
                self.turn = None if self.turn == side else self.turn
                self.impatient.discard(OTHER[side])
                self.next = OTHER[side] if OTHER[side] in self.waiting else None
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

    def __init__(self, turns: GilTurns) -> None:
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
