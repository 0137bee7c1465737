"""A server on a port of this machine: a socket on the loopback address first, then the application."""

from __future__ import annotations

import ipaddress
import math
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple

from weft.errors import ConfigError, Fault

END_SECONDS: Final = 1.0
"""Time that open connections have to finish when the server ends."""


class Listener(NamedTuple):
    """A socket that listens, with its address for a browser."""

    socket: socket.socket
    url: str


def listen(host: str = "127.0.0.1", port: int = 0, *, anywhere: bool = False, backlog: int = 128) -> Listener:
    """Listen on a port of the loopback address; 0 takes a free one. Another address is refused unless `anywhere`."""
    if not anywhere:
        check_loopback(host)
    if not 0 <= port <= 65535:
        raise ConfigError("is no port", where=f"--port {port}", cure="from 1 to 65535, or 0 for a free one")
    address = "127.0.0.1" if host == "localhost" else host
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((address, port))
        found.listen(backlog)
    except OSError as error:
        found.close()
        cure = "choose another --port, or leave it out"
        raise Fault(f"cannot listen: {error.strerror or error}", where=f"{address}:{port}", cure=cure) from None
    return Listener(found, address_of(found))


def address_of(opened: socket.socket) -> str:
    """Return the address of a socket that listens, for a browser."""
    address, port = opened.getsockname()[:2]
    return f"http://[{address}]:{port}/" if ":" in address else f"http://{address}:{port}/"


def is_loopback(host: str) -> bool:
    """Return whether an address can be reached from this machine alone."""
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def check_loopback(host: str) -> None:
    """Raise unless the address can be reached from this machine alone."""
    if not is_loopback(host):
        what = "would let others on the network read your runs and use this machine"
        raise ConfigError(what, where=f"host {host}", cure="listen on 127.0.0.1, and reach it by ssh -L")


def run_server(
    app: Any,
    listener: Listener,
    *,
    on_ready: Callable[[], None] | None = None,
    on_end: Callable[[], None] | None = None,
    end_seconds: float = END_SECONDS,
    connections: int | None = 256,
    own_logs: bool = False,
) -> bool:
    """Serve until Ctrl-C or SIGTERM; then nothing is accepted, `on_end` is called, and open connections get
    `end_seconds` to finish. Return whether all of them have. With `own_logs` the caller has set up logging."""
    import uvicorn
    from uvicorn.config import LOGGING_CONFIG

    from weft.serve.connections import BoundedConnection, raise_descriptor_limit

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if on_ready is not None and self.started:
                on_ready()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            self._captured_signals.clear()  # uvicorn would raise them again, and SIGTERM would end the process
            if on_end is not None:
                on_end()
            await super().shutdown(sockets)

    config = uvicorn.Config(
        app,
        http=BoundedConnection,
        log_level="warning",
        access_log=False,
        ws="none",
        server_header=False,
        proxy_headers=False,
        limit_concurrency=connections,
        timeout_graceful_shutdown=math.ceil(end_seconds),
        timeout_keep_alive=30,
        log_config=None if own_logs else LOGGING_CONFIG,
    )
    raise_descriptor_limit()
    server = Server(config)
    with suppress(KeyboardInterrupt):
        server.run([listener.socket])
    return not server.server_state.connections
