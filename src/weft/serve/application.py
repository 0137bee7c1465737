"""The application factory: routes behind the guard, errors in one form, nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from fastapi import APIRouter, FastAPI

from weft.serve.errors import answer_errors
from weft.serve.guard import LOOPBACK_NAMES, Guard, Limits
from weft.version import __version__


def create_application(
    title: str,
    routers: Iterable[APIRouter],
    *,
    hosts: Iterable[str] = LOOPBACK_NAMES,
    limits: Limits | None = None,
    on_start: Callable[[], Any] | None = None,
    on_end: Callable[[], Any] | None = None,
) -> FastAPI:
    """Return an application with these routes. `on_start` is called before the first request, `on_end` at the end."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        if on_start is not None:
            on_start()
        try:
            yield
        finally:
            if on_end is not None:
                on_end()

    life: Callable[[FastAPI], AbstractAsyncContextManager[None]] = lifespan
    # No pages of documentation: they load scripts from elsewhere.
    app = FastAPI(title=title, version=__version__, docs_url=None, redoc_url=None, openapi_url=None, lifespan=life)
    answer_errors(app)
    for router in routers:
        app.include_router(router)
    app.add_middleware(Guard, hosts=tuple(hosts), limits=limits)
    return app
