"""The outermost layer of a server: an id for each request, API keys, metrics, and a line in the log."""

from __future__ import annotations

import logging
import re
import secrets
import time
from typing import TYPE_CHECKING, Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from weft.serve.api_errors import Busy, error_response
from weft.serve.errors import HTTPError
from weft.serve.keys import Keys
from weft.serve.logs import log
from weft.serve.metrics import UNKNOWN_ROUTE

if TYPE_CHECKING:
    from weft.serve.service import Service

OPEN_ROUTES: Final = ("/healthz", "/readyz")
"""Routes that need no key: probes have none, and they say nothing of models or texts."""

QUIET_ROUTES: Final = (*OPEN_ROUTES, "/metrics")
"""Routes whose requests are not logged: they come every few seconds."""

ROUTES: Final = (
    *QUIET_ROUTES, "/openapi.json", "/v1/predict", "/v1/stream", "/v1/score", "/v1/embed", "/v1/completions",
    "/v1/models", "/v1/reload",
)  # fmt: skip
"""The routes that metrics name; all others are one, so that requests cannot fill the memory with names."""

REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9._-]{1,64}")
MAX_LOGGED_CHARACTERS: Final = 500

MAX_OPEN_REQUESTS: Final = 4096
"""Requests of a process that are read or answered at a time, streams included."""


class Gate:
    """Counts, logs and admits requests."""

    def __init__(self, app: ASGIApp, *, keys: Keys, service: Service, log_text: bool) -> None:
        self.app, self.keys, self.service, self.log_text = app, keys, service, log_text
        self.metrics = service.metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        given = headers.get(b"x-request-id", b"")
        id = given.decode() if REQUEST_ID.fullmatch(given) else secrets.token_hex(8)
        state: dict[str, Any] = scope.setdefault("state", {})
        began, status = time.monotonic(), 499

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message.get("headers", []), (b"x-request-id", id.encode())]}
            await send(message)

        try:
            if scope["path"] not in OPEN_ROUTES:
                self.keys.check(headers.get(b"authorization"))
                if self.service.requests >= MAX_OPEN_REQUESTS:
                    raise Busy(503, f"{self.service.requests:,} requests are open", after=1)
            if scope["path"] not in QUIET_ROUTES:
                self.service.check_ready()
        except HTTPError as error:
            await error_response(error)(scope, receive, answer)
            self._count(scope, id, status, began, state)
            return
        accepted = scope["path"] not in QUIET_ROUTES
        self.service.requests += accepted
        try:
            await self.app(scope, receive, answer)
        finally:
            self.service.requests -= accepted
            self._count(scope, id, status, began, state)

    def _count(self, scope: Scope, id: str, status: int, began: float, state: dict[str, Any]) -> None:
        seconds, path = time.monotonic() - began, scope["path"]
        route = "/v1/models" if path.startswith("/v1/models/") else path if path in ROUTES else UNKNOWN_ROUTE
        self.metrics.requests.labels(route, str(status)).inc()
        self.metrics.seconds.labels(route).observe(seconds)
        if route == "/readyz" or (route in QUIET_ROUTES and status < 500):
            return
        fields = {
            "id": id,
            "method": scope["method"][:16],
            "route": route,
            "status": status,
            "ms": round(1000 * seconds, 1),
        }
        fields |= state.get("fields", {})
        if self.log_text and "texts" in state:
            fields["text"] = _shorten(state["texts"])
        log("request", level=logging.WARNING if status >= 500 else logging.INFO, **fields)


def _shorten(value: Any) -> Any:
    if isinstance(value, str):
        return value[:MAX_LOGGED_CHARACTERS]
    return [_shorten(one) for one in value[:16]] if isinstance(value, list) else str(value)[:MAX_LOGGED_CHARACTERS]
