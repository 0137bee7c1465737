"""A server on a port of this machine: a socket on the loopback address first, then the application."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from weft.errors import ConfigError, Fault

END_SECONDS = 1
"""Time that open connections have to finish when the server ends."""


class Listener(NamedTuple):
    """A socket that listens, with its address for a browser."""

    socket: socket.socket
    url: str


def listen(host: str = "127.0.0.1", port: int = 0) -> Listener:
    """Listen on a port of the loopback address; 0 takes a free one. Any other address is refused."""
    check_loopback(host)
    if not 0 <= port <= 65535:
        raise ConfigError("is no port", where=f"--port {port}", cure="from 1 to 65535, or 0 for a free one")
    address = "127.0.0.1" if host == "localhost" else host
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((address, port))
        found.listen(128)
    except OSError as error:
        found.close()
        cure = "choose another --port, or leave it out"
        raise Fault(f"cannot listen: {error.strerror or error}", where=f"{address}:{port}", cure=cure) from None
    shown = f"[{address}]" if ":" in address else address
    return Listener(found, f"http://{shown}:{found.getsockname()[1]}/")


def check_loopback(host: str) -> None:
    """Raise unless the address can be reached from this machine alone."""
    with suppress(ValueError):
        if ipaddress.ip_address(host).is_loopback:
            return
    if host != "localhost":
        what = "would let others on the network read your runs and use this machine"
        raise ConfigError(what, where=f"host {host}", cure="listen on 127.0.0.1, and reach it by ssh -L")


def run_server(app: Any, listener: Listener, *, on_ready: Callable[[], None] | None = None) -> None:
    """Serve until Ctrl-C or SIGTERM; then open connections get a few seconds to finish."""
    import uvicorn

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if on_ready is not None and self.started:
                on_ready()

    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        ws="none",
        server_header=False,
        proxy_headers=False,
        limit_concurrency=256,
        timeout_graceful_shutdown=END_SECONDS,
        timeout_keep_alive=30,
    )
    with suppress(KeyboardInterrupt):  # uvicorn raises the signal again after a graceful end
        Server(config).run([listener.socket])
