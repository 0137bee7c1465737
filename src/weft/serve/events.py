"""Server-sent events: a response that stays open, with heartbeats, that ends when the client leaves."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, Final, NamedTuple

from starlette.responses import StreamingResponse

from weft.documents import to_json
from weft.serve.errors import HTTPError

HEARTBEAT_SECONDS: Final = 15.0
MAX_STREAM_SECONDS: Final = 3600.0
"""A stream ends after this time; a browser then opens it again where it left off."""

MAX_STREAMS: Final = 32
"""Open streams of all applications of this process."""

_open = 0


class Event(NamedTuple):
    """One event: its name, its data as plain values, and its number in a feed."""

    name: str
    data: Any
    number: int | None = None

    def encode(self) -> bytes:
        """Return the event as it is sent. JSON has no line breaks, so the data is one line."""
        number = "" if self.number is None else f"id: {self.number}\n"
        return f"{number}event: {self.name}\ndata: {to_json(self.data)}\n\n".encode()


class Line(NamedTuple):
    """An event without a name, whose data is a text as it is."""

    text: str

    def encode(self) -> bytes:
        return f"data: {self.text}\n\n".encode()


def event_stream(
    events: AsyncIterator[Event] | AsyncIterator[Line],
    *,
    heartbeat: float = HEARTBEAT_SECONDS,
    most: float = MAX_STREAM_SECONDS,
    most_open: int | None = MAX_STREAMS,
) -> StreamingResponse:
    """Return the response that sends events until there are no more, the client leaves, or `most` seconds are over.
    Where `most_open` streams are open already, it raises; None leaves that to others."""
    if most_open is not None and _open >= most_open:
        raise HTTPError(503, f"{most_open} streams are open", cure="close other pages of the studio")
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(
        _encoded(events, heartbeat=heartbeat, most=most), media_type="text/event-stream", headers=headers
    )


async def _encoded(events: AsyncIterator[Any], *, heartbeat: float, most: float) -> AsyncIterator[bytes]:
    global _open
    _open += 1
    ends = asyncio.get_running_loop().time() + most
    following: asyncio.Future[Any] | None = None
    try:
        while asyncio.get_running_loop().time() < ends:
            following = following or asyncio.ensure_future(anext(events))
            done, _ = await asyncio.wait({following}, timeout=heartbeat)
            if not done:
                yield b": heartbeat\n\n"  # a comment: it shows that the connection is open
                continue
            following = None
            try:
                yield done.pop().result().encode()
            except StopAsyncIteration:
                return
    finally:
        _open -= 1
        if following is not None:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
        close = getattr(events, "aclose", None)
        if close is not None:
            await close()


class Feed:
    """Events that a thread publishes and any number of streams follow. The newest `capacity` events are kept."""

    def __init__(self, capacity: int = 4000) -> None:
        self.kept: deque[Event] = deque(maxlen=capacity)
        self.count = 0
        self.closed = False
        self.lock = threading.Lock()
        self.waiting: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()

    def publish(self, name: str, data: Any) -> None:
        """Add an event, from any thread."""
        with self.lock:
            if self.closed:
                return
            self.count += 1
            self.kept.append(Event(name, data, self.count))
            self._wake()

    def close(self) -> None:
        """End the feed: streams end after the last event."""
        with self.lock:
            self.closed = True
            self._wake()

    def _wake(self) -> None:
        for loop, event in self.waiting:
            if not loop.is_closed():
                loop.call_soon_threadsafe(event.set)

    async def follow(self, after: int = 0) -> AsyncIterator[Event]:
        """Yield the events with a number greater than `after`, those that are kept and those to come."""
        news = asyncio.Event()
        mine = (asyncio.get_running_loop(), news)
        with self.lock:
            self.waiting.add(mine)
        try:
            while True:
                news.clear()
                with self.lock:
                    found = [event for event in self.kept if event.number is not None and event.number > after]
                    closed = self.closed
                for event in found:
                    yield event
                    after = event.number or after
                if closed and not found:
                    return
                if not found:
                    await news.wait()
        finally:
            with self.lock:
                self.waiting.discard(mine)
