"""The server: an application with all routes, and a process that serves it until SIGTERM."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette

from weft.serve.api_errors import answer_api_errors, error_response
from weft.serve.completions import completion_routes
from weft.serve.gate import Gate
from weft.serve.guard import LOOPBACK_NAMES, Guard, Limits
from weft.serve.health import health_routes
from weft.serve.keys import Keys
from weft.serve.listening import Listener, run_server
from weft.serve.logs import log, start_logging
from weft.serve.routes import api_routes
from weft.serve.service import Service
from weft.serve.settings import ServerSettings

if TYPE_CHECKING:
    from collections.abc import Mapping


def create_server(settings: ServerSettings, *, cells: Mapping[str, Any] | None = None, load: bool = True) -> Starlette:
    """Return the application of a server, with its models loaded; raise where a run cannot be. Without `load` it
    answers with 503 until `app.state.service.load()` has ended."""
    settings.check()
    service = Service(settings, cells=cells)
    if load:
        service.models.load()

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        service.start()
        try:
            yield
        finally:
            service.end()

    # Not FastAPI, whose routes take longer: bodies and OpenAPI here depend on what is served.
    app = Starlette(
        routes=[*api_routes(service), *completion_routes(service), *health_routes(service)], lifespan=lifespan
    )
    app.router.redirect_slashes = False
    answer_api_errors(app)
    keys = Keys(settings.keys)
    limits = Limits(
        body_bytes=settings.limits.body_bytes, body_seconds=settings.limits.seconds, requests_per_second=None
    )
    # With keys no page of another site can send a request that is answered, and a proxy may have any name.
    hosts = None if keys else LOOPBACK_NAMES
    app.add_middleware(Guard, hosts=hosts, limits=limits, respond=error_response)
    app.add_middleware(Gate, keys=keys, service=service, log_text=settings.log_text)
    app.state.service = service
    return app


def serve(
    settings: ServerSettings, listener: Listener, *, on_ready: Callable[[], None] | None = None, early: bool = True
) -> int:
    """Serve until Ctrl-C or SIGTERM -> the exit code: 0 where every request that was accepted has been answered.

    With `early` probes are answered while the models are loaded; where other processes accept from the same socket,
    they take the requests until then.
    """
    if hasattr(signal, "SIGHUP"):  # until the models are loaded there is nothing to load again
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    cells = {}
    if settings.imports:
        from weft.run import import_classes

        cells = import_classes(settings.imports)
    app = create_server(settings, cells=cells, load=False)
    service: Service = app.state.service
    service.models.on_loaded = collect_lasting
    if not early:
        service.models.load()
    start_logging()

    def ready() -> None:
        if hasattr(signal, "SIGHUP"):
            with suppress(NotImplementedError, RuntimeError):
                asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, _refresh, service)
        log("ready", models=sorted(service.models.served), address=listener.url)
        if on_ready is not None:
            on_ready()

    def drain() -> None:
        service.draining = True
        if service.models.served:
            log("draining", waiting=service.engine.waiting)

    done = run_server(
        app,
        listener,
        prepare=service.load if early else None,
        on_ready=ready,
        on_end=drain,
        busy=lambda: service.requests > 0,
        end_seconds=settings.drain,
        connections=None,
        own_logs=True,
        new_loop=service.engine.gil_turns.new_loop if service.on_gpu else None,
    )
    log("ended", drained=done)
    return 0 if done else 1


def collect_lasting() -> None:
    """Collect garbage once, and leave what lasts out of later collections.

    A collection of all objects, some hundred thousand with torch, stops every request: 0.1 to 0.3 s every few seconds.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def _refresh(service: Service) -> None:
    task = asyncio.get_running_loop().create_task(service.models.refresh(again=True))
    _TASKS.add(task)
    task.add_done_callback(_TASKS.discard)


_TASKS: set[asyncio.Task[Any]] = set()
"""Tasks that run; the loop itself holds only weak references."""
