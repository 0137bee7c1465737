"""Connections of a server: their number is bounded, and so is the time in which the head of a request must arrive.

uvicorn bounds neither. Clients that open connections and send half a head would take all file descriptors of the
process, and `accept` would then fail, and log that, thousands of times a second. No key helps: it stands in the head.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS: Final = 20.0
"""Time in which the head of a request must arrive after its first byte, or after the connection."""

SPARE_DESCRIPTORS: Final = 64
"""File descriptors that are kept for everything but connections: runs, logs, libraries."""

WANTED_DESCRIPTORS: Final = 16_384
"""The limit of file descriptors that a server asks the system for."""


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
    """uvicorn's connection, closed at once where there are too many, and after `HEAD_SECONDS` without a whole head."""

    head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > most_connections():
            transport.abort()
        else:
            self._await_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_timer()
        elif self.head_timer is None:
            self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        self.head_timer = self.loop.call_later(HEAD_SECONDS, self._close_without_head)

    def _stop_timer(self) -> None:
        if self.head_timer is not None:
            self.head_timer.cancel()
            self.head_timer = None

    def _close_without_head(self) -> None:
        self.head_timer = None
        if self.conn.their_state is h11.IDLE:
            self.transport.close()
