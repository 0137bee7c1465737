"""Checks of every request before the application sees it, and headers of every response.

A page of another site may send requests to a service on this machine, also under a name of its own that it has bound to
127.0.0.1 (DNS rebinding). So the Host must be a name of this machine, and a request that a browser sends from another
origin is refused.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from weft.serve.errors import LOG, HTTPError, describe_error, json_response

LOOPBACK_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")

SAFE_METHODS: Final = ("GET", "HEAD")

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""No script but the service's own files. Styles may be inline, because the charts' library adds some."""

HEADERS: Final = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-cache"),
]


@dataclass(frozen=True)
class Limits:
    """Limits of the requests to a service."""

    body_bytes: int = 1 << 20
    body_seconds: float = 30.0
    """Time in which the whole body must arrive."""
    requests_per_second: float | None = 50.0
    """None where something else bounds them, such as a queue."""
    burst: int = 200
    """Requests that may come at once, after a pause."""


class Guard:
    """The outermost layer of an application: checks Host, Origin, body and rate, and adds the security headers."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: Iterable[str] | None = LOOPBACK_NAMES,
        limits: Limits | None = None,
        respond: Callable[[Exception], Response] | None = None,
    ) -> None:
        """Without `hosts` any Host and origin may ask, which is for services that need a key. `respond` makes the
        response for an error."""
        self.app, self.hosts = app, None if hosts is None else frozenset(hosts)
        self.limits, self.respond = limits or Limits(), respond or _respond
        rate = self.limits.requests_per_second
        self.rate = None if rate is None else RateLimit(rate, self.limits.burst)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # a websocket is closed before it is opened
            await send({"type": "websocket.close", "code": 1008})
            return
        try:
            if self.rate is not None:
                self.rate.take()
            if self.hosts is not None:
                check_origin(scope, self.hosts)
            check_media(scope)
            body = b"" if scope["method"] in SAFE_METHODS else await read_body(scope, receive, self.limits)
        except HTTPError as error:
            await self.respond(error)(scope, receive, with_headers(send))
            return
        began = False

        async def answer(message: Message) -> None:
            nonlocal began
            began = True
            await send(message)

        try:
            await self.app(scope, replay(body, receive), with_headers(answer))
        except Exception as error:  # a mistake in weft; what has begun cannot be answered in another way
            LOG.exception("%s %s", scope["method"], scope["path"])
            if began:
                raise
            await self.respond(error)(scope, receive, with_headers(send))


def _respond(error: Exception) -> Response:
    status, found = describe_error(error)
    return json_response(found, status)


class RateLimit:
    """A bucket that fills at a constant rate; each request takes one from it."""

    def __init__(self, per_second: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_second, self.burst, self.clock = per_second, burst, clock
        self.left, self.at = float(burst), clock()

    def take(self) -> None:
        """Raise where the bucket is empty."""
        now = self.clock()
        self.left = min(self.burst, self.left + (now - self.at) * self.per_second)
        self.at = now
        if self.left < 1:
            raise HTTPError(429, "too many requests", cure="wait a moment")
        self.left -= 1


def check_origin(scope: Scope, hosts: frozenset[str]) -> None:
    """Raise for a Host that is not ours, and for a request from another origin."""
    found = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
    headers = dict(scope["headers"])
    if len(found) != 1 or host_name(found[0]) not in hosts:
        named = found[0][:80] if len(found) == 1 else f"{len(found)} names"
        cure = f"use {sorted(hosts)[0]}"
        raise HTTPError(421, f"Host: {named} is not this service", cure=cure)
    writes = scope["method"] not in SAFE_METHODS
    origin = headers.get(b"origin")
    if origin is not None and origin.decode("latin-1") != f"{scope.get('scheme', 'http')}://{found[0]}":
        raise HTTPError(403, "the request comes from another origin")
    site = headers.get(b"sec-fetch-site", b"none")
    if site not in (b"none", b"same-origin") and (writes or scope["path"].startswith("/api")):
        raise HTTPError(403, "the request comes from another site")


def check_media(scope: Scope) -> None:
    """Raise for a body that a plain form could send."""
    found = next((value for name, value in scope["headers"] if name == b"content-type"), b"")
    kind = found.decode("latin-1").partition(";")[0].strip().lower()
    if scope["method"] not in SAFE_METHODS and kind != "application/json":
        raise HTTPError(415, "the body must be application/json", cure="set Content-Type")


def host_name(host: str) -> str:
    """Return the name of a Host header without its port; an IPv6 address keeps its brackets."""
    name, colon, port = host.rpartition(":")
    return name.lower() if colon and port.isdecimal() and name else host.lower()


async def read_body(scope: Scope, receive: Receive, limits: Limits) -> bytes:
    """Return the body; raise as soon as it is too large, and where it does not arrive in time."""
    declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
    too_large = HTTPError(413, f"the body has more than {limits.body_bytes:,} bytes", cure="send less")
    if not declared.isdigit() or int(declared) > limits.body_bytes:
        raise too_large
    parts, size = list[bytes](), 0
    try:
        async with asyncio.timeout(limits.body_seconds):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise HTTPError(400, "the body was cut off")
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > limits.body_bytes:
                    raise too_large
                if not message.get("more_body", False):
                    return b"".join(parts)
    except TimeoutError:
        raise HTTPError(408, f"the body did not arrive in {limits.body_seconds:g} s") from None


def replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives the body first, and then what the connection gives."""
    waiting = [body]

    async def again() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return again


def with_headers(send: Send) -> Send:
    """Return a `send` that adds the security headers to a response, where it does not set them itself."""

    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = message.get("headers", [])
            own = {name.lower() for name, _ in given}
            message = {**message, "headers": [*given, *(one for one in HEADERS if one[0] not in own)]}
        await send(message)

    return wrapped
