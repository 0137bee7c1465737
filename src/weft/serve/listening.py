"""A server on a port of this machine: a socket on the loopback address first, then the application."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple

from weft.errors import ConfigError, Fault

ACCEPTED_AT_ONCE: Final = 16
"""Connections that one turn of the event loop accepts: those that are too many are closed before the next ones come."""

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
    # With the protocol, or asyncio leaves Nagle's algorithm on: each body would wait 40 ms for the client's receipt.
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
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
    prepare: Callable[[], Awaitable[None]] | None = None,
    on_ready: Callable[[], None] | None = None,
    on_end: Callable[[], None] | None = None,
    busy: Callable[[], bool] = lambda: False,
    end_seconds: float = END_SECONDS,
    connections: int | None = 256,
    own_logs: bool = False,
    new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> bool:
    """Serve until Ctrl-C or SIGTERM. Return whether all connections have ended by then.

    `prepare` runs while requests are answered already; `on_ready` is called after it, and its error ends the server and
    is raised. At the end `on_end` is called; connections are still accepted while `busy()` is true. Then the socket is
    closed and open connections end. Both together take at most `end_seconds`. With `own_logs` the caller has set up
    logging. `new_loop` makes the event loop.
    """
    import uvicorn
    from uvicorn.config import LOGGING_CONFIG

    from weft.serve.connections import BoundedConnection, raise_descriptor_limit

    class Server(uvicorn.Server):
        failure: Exception | None = None
        drained = True

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            listener.socket.listen(socket.SOMAXCONN)  # asyncio has set the system's queue to what it accepts at once
            self.preparing = asyncio.create_task(self._prepare())

        async def _prepare(self) -> None:
            try:
                if prepare is not None:
                    await prepare()
                if on_ready is not None and not self.should_exit:
                    on_ready()
            except Exception as error:
                self.failure, self.should_exit = error, True

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            self._captured_signals.clear()  # uvicorn would raise them again, and SIGTERM would end the process
            clock = asyncio.get_running_loop().time
            ends = clock() + end_seconds
            if on_end is not None:
                on_end()
            await asyncio.wait({self.preparing})
            while busy() and clock() < ends and not self.force_exit:
                await asyncio.sleep(0.05)
            self.drained = not busy()
            self.config.timeout_graceful_shutdown = max(0.0, ends - clock())  # type: ignore[assignment]
            await super().shutdown(sockets)

    config = uvicorn.Config(
        app,
        http=BoundedConnection,
        backlog=ACCEPTED_AT_ONCE,
        log_level="warning",
        access_log=False,
        ws="none",
        server_header=False,
        proxy_headers=False,
        limit_concurrency=connections,
        timeout_keep_alive=30,
        log_config=None if own_logs else LOGGING_CONFIG,
    )
    raise_descriptor_limit()
    server = Server(config)
    with suppress(KeyboardInterrupt), asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(server.serve([listener.socket]))
    if server.failure is not None:
        raise server.failure
    return server.drained and not server.server_state.connections
