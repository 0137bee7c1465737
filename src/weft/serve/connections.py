"""Connections of a server: their number is bounded, and so is the time that a client may keep one waiting.

uvicorn bounds neither. Clients that send half a head, never end a body whose request has been answered, or never read
their responses, would take all file descriptors of the process, and `accept` would then fail, and log that, thousands
of times a second. No key helps: it stands in the head, and requests without one are answered too.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Final, Literal

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS: Final = 20.0
"""Time in which the head of a request must arrive after its first byte, or after the connection, and what remains of a
body after the response."""

UNREAD_SECONDS: Final = 60.0
UNREAD_BYTES: Final = 1 << 16
"""A client must read so many bytes in this time, where the system has no memory left for what it has not read."""

SPARE_DESCRIPTORS: Final = 100
"""File descriptors that are kept for everything but connections: runs, logs, libraries."""

WANTED_DESCRIPTORS: Final = 16_384
"""The limit of file descriptors that a server asks the system for."""

Awaited = Literal["head", "rest of a body"]


def raise_descriptor_limit() -> None:
    """Raise the limit of file descriptors of this process, as far as the system allows it."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = WANTED_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, WANTED_DESCRIPTORS)
        if soft != resource.RLIM_INFINITY and soft < most:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def most_connections() -> int:
    """Return the number of connections that the file descriptors of this process suffice for."""
    soft = WANTED_DESCRIPTORS
    with suppress(ImportError, OSError):
        import resource

        found = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        soft = soft if found == resource.RLIM_INFINITY else found
    return max(1, soft - SPARE_DESCRIPTORS)


class BoundedConnection(H11Protocol):
    """uvicorn's connection, closed at once where there are too many, after `HEAD_SECONDS` without a whole head or the
    end of a body that nobody reads, and where the client does not read its responses."""

    awaited: Awaited | None = None
    """What the client must send in time."""
    sending_timer: asyncio.TimerHandle | None = None
    reading_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > most_connections():
            transport.abort()
            return
        transport.set_write_buffer_limits(high=0)  # so that `pause_writing` is called for every byte that is held back
        self._await_client()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._await_client()

    def connection_lost(self, exc: Exception | None) -> None:
        _cancel(self.sending_timer)
        _cancel(self.reading_timer)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_reader()

    def resume_writing(self) -> None:
        _cancel(self.reading_timer)
        super().resume_writing()

    def _awaits(self) -> Awaited | None:
        if self.conn.their_state is h11.IDLE:
            return "head"
        if self.conn.their_state is h11.SEND_BODY and self.conn.our_state is h11.DONE:
            return "rest of a body"
        return None

    def _await_client(self) -> None:
        """Start the timer for what the client must send now, where it does not run for that already."""
        awaited = self._awaits()
        if awaited != self.awaited:
            _cancel(self.sending_timer)
            self.awaited = awaited
            if awaited is not None:
                self.sending_timer = self.loop.call_later(HEAD_SECONDS, self._close_late, awaited)

    def _close_late(self, awaited: Awaited) -> None:
        self.awaited = None
        if self._awaits() == awaited:
            self.transport.close()

    def _await_reader(self, most: int | None = None) -> None:
        """Abort the connection where more than `most` bytes are held back, and look again later."""
        held: int = self.transport.get_write_buffer_size()
        if most is not None and held > most:
            self.transport.abort()
        else:
            self.reading_timer = self.loop.call_later(UNREAD_SECONDS, self._await_reader, held - UNREAD_BYTES)


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
