"""A client of HTTP that costs little: it shares the processor with the server that it measures."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit


class Reply(NamedTuple):
    """A response, and when it was there."""

    status: int
    body: bytes
    seconds: float


class NotAccepted(Exception):
    """The connection ended before any byte of a response, and before the server can have read the request: it may be
    sent again."""


class Client:
    """One connection that is kept open, one request after the other."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.host, self.port = parts.hostname or "127.0.0.1", parts.port or 80
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, body: dict[str, Any]) -> Reply:
        """Send a request and read its response."""
        content = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\nContent-Type: application/json\r\n"
        began = time.monotonic()
        reader, writer = await self._open()
        try:
            writer.write(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
            await writer.drain()
            status_line = await reader.readline()
        except ConnectionError:
            status_line = b""
        if not status_line:
            self.close()
            raise NotAccepted
        status, size, keep = int(status_line.split()[1]), 0, True
        while (line := await reader.readline()) not in (b"\r\n", b""):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                size = int(value)
            elif name.lower() == b"connection" and value.strip().lower() == b"close":
                keep = False
        found = await reader.readexactly(size)
        if not keep:
            self.close()
        return Reply(status, found, time.monotonic() - began)

    async def leave(self, path: str, body: dict[str, Any], *, after: float) -> None:
        """Send a request, and close the connection after some seconds without reading the end."""
        content = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\nContent-Type: application/json\r\n"
        _, writer = await self._open()
        writer.write(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
        await writer.drain()
        await asyncio.sleep(after)
        if (transport := writer.transport) is not None:
            transport.abort()
        self.streams = None

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self.streams is None:
            try:
                self.streams = await asyncio.open_connection(self.host, self.port)
            except ConnectionError:
                raise NotAccepted from None
        return self.streams

    def close(self) -> None:
        """Close the connection."""
        if self.streams is not None:
            self.streams[1].close()
            self.streams = None


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of all values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -(-int(share * 1000) * len(ordered) // 1000) - 1))]
