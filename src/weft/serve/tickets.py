"""The work of one request: a ticket that a coroutine waits for, and a job for each of its inputs."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from weft.serve.answers import count_values
from weft.serve.api_errors import Busy, RequestError
from weft.serve.errors import HTTPError
from weft.serve.settings import RequestLimits

Piece = tuple[int, str]
"""The number of an input, and more of its text."""


class Outbox:
    """Calls that the engine's thread leaves to the event loop, which is woken once for those of a turn: after each wake
    both threads want the interpreter."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.calls: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()

    def post(self, function: Callable[..., None], *arguments: Any) -> None:
        """Add a call, from any thread; it is made after the next `deliver`."""
        self.calls.append((function, arguments))

    def deliver(self) -> None:
        """Wake the event loop if there are calls."""
        if self.calls and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._make)

    def _make(self) -> None:
        while self.calls:
            function, arguments = self.calls.popleft()
            function(*arguments)


class Ticket:
    """The results of a request's inputs, as the engine's thread computes them."""

    def __init__(self, count: int, outbox: Outbox, *, limits: RequestLimits, streams: bool = False) -> None:
        self.results: list[Any] = [None] * count
        self.left, self.started, self.over = count, False, False
        self.deadline, self.seconds = time.monotonic() + limits.seconds, limits.seconds
        self.values, self.most_values = 0, limits.values
        self.outbox = outbox
        self.done: asyncio.Future[list[Any]] = outbox.loop.create_future()
        self.pieces: asyncio.Queue[Piece | None] | None = asyncio.Queue() if streams else None
        self._lock = threading.Lock()

    @property
    def wanted(self) -> bool:
        """Whether the client is still connected and within its deadline."""
        return not self.over and time.monotonic() < self.deadline

    def resolve(self, number: int, result: Any) -> None:
        """Store the result of an input, from any thread; the request fails where its answer becomes too large."""
        size = count_values(result)
        with self._lock:
            self.values += size
        if self.values > self.most_values:
            what = f"the answer has more than {self.most_values:,} numbers and texts"
            self.fail(RequestError(what, cure="send fewer or shorter inputs, or ask for less of each"))
            return
        with self._lock:
            self.results[number] = result
            self.left -= 1
            finished = self.left == 0 and not self.over
            self.over |= finished
        if finished:
            self.outbox.post(self._finish, None)

    def fail(self, error: BaseException) -> None:
        """End the request with an error, from any thread; its other inputs are not computed."""
        with self._lock:
            if self.over:
                return
            self.over = True
        self.outbox.post(self._finish, error)

    def cancel(self) -> None:
        """Mark the ticket as abandoned: its client has gone."""
        self.over = True

    def piece(self, number: int, text: str) -> None:
        """Pass on more of the text of an input."""
        if self.pieces is not None and text:
            self.outbox.post(self.pieces.put_nowait, (number, text))

    def _finish(self, error: BaseException | None) -> None:
        if not self.done.done():
            if error is None:
                self.done.set_result(self.results)
            else:
                self.done.set_exception(error)
                self.done.exception()  # its client may have gone
        if self.pieces is not None:
            self.pieces.put_nowait(None)

    async def follow(self) -> AsyncIterator[Piece]:
        """Yield pieces of text until all inputs are done; raise the error of the request."""
        assert self.pieces is not None
        try:
            while True:
                try:
                    item = await asyncio.wait_for(self.pieces.get(), self.deadline - time.monotonic())
                except TimeoutError:
                    raise self.late() from None
                if item is None:
                    await self.done
                    return
                yield item
        finally:
            self.over = True

    def late(self) -> HTTPError:
        """The error of a request that is over its time."""
        if self.started:
            return RequestError(f"took more than {self.seconds:g} s", cure="send fewer or shorter inputs", status=504)
        return Busy(503, f"did not get its turn in {self.seconds:g} s", after=self.seconds / 4)


class NoAnswer:
    """The answer to an input without a text."""

    def record(self) -> None:
        """Return null, as `weft predict --json` prints it."""


@dataclass(slots=True, eq=False)
class Job:
    """One input of a request."""

    ticket: Ticket
    number: int
    record: Any
    key: int | None = None
    """The number that seeds sampling, beside `seed`."""
    seed: int = 0
    max_length: int | None = None
    wording: Any = None
    place: str = ""
    """The input's name in messages."""
    stream: Any = None
    """Its text in pieces, once the search has begun."""
    sent: int = 0
    """Tokens that were passed on."""
    extra: dict[str, Any] = field(default_factory=dict)

    def resolve(self, result: Any) -> None:
        self.ticket.resolve(self.number, result)

    def fail(self, error: BaseException) -> None:
        self.ticket.fail(error)


@dataclass(frozen=True)
class Settings:
    """The settings that inputs must share to be computed together."""

    model: Any
    kind: str
    options: Hashable
    value: Any = field(compare=False, default=None)
    """The options themselves."""
