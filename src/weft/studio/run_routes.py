"""The routes of the studio that read: runs, their views, answers and curves, comparisons, ladders, lessons."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from weft.charts import ON_DARK, THEMES, can_draw
from weft.errors import WeftError
from weft.serve import Event, describe_error, event_stream
from weft.serve.bodies import Body, read_body, read_object
from weft.serve.errors import json_response
from weft.serve.inputs import MAX_PICTURE_BYTES
from weft.studio import answers, comparing, curves, details, views
from weft.studio.discovery import Found
from weft.studio.inputs import MAX_CHARACTERS, MAX_ROWS
from weft.studio.learn import describe_settings, describe_toys
from weft.studio.lessons import GradientLesson, describe_lesson, search_states, show_gradients
from weft.studio.studio import COMPUTE_SECONDS, Studio
from weft.version import __version__

MAX_BODY_TEXT: Final = MAX_PICTURE_BYTES * 4 // 3 + 100


class Input(Body):
    """An input with the options of a view or a search."""

    text: str | None = Field(None, max_length=MAX_BODY_TEXT)
    target: str | None = Field(None, max_length=MAX_CHARACTERS)
    options: dict[str, Any] = Field(default_factory=dict, max_length=40)


class Compared(Body):
    """Runs to compare, and a file below the given folders to measure them on."""

    runs: list[str] = Field(min_length=1, max_length=comparing.MAX_COMPARED)
    data: str | None = Field(None, max_length=1000)
    metric: str | None = Field(None, max_length=100)


def run_routes(studio: Studio) -> APIRouter:
    """Return the routes that change nothing."""
    router = APIRouter(prefix="/api")

    @router.get("/health")
    async def health() -> Response:
        return json_response({"status": "ok", "version": __version__})

    @router.get("/info")
    async def info() -> Response:
        return json_response(await studio.workers.run("info", lambda: _info(studio)))

    @router.get("/runs")
    async def runs() -> Response:
        return json_response(await studio.workers.run("runs", studio.library.describe_runs))

    @router.get("/files")
    async def files() -> Response:
        return json_response(await studio.workers.run("files", studio.library.list_files))

    @router.get("/ladders")
    async def ladders() -> Response:
        return json_response(await studio.workers.run("ladders", studio.library.describe_ladders))

    @router.get("/ladders/{id:path}")
    async def ladder(id: str) -> Response:
        return json_response(await studio.with_folder(studio.library.ladder(id), comparing.show_ladder))

    @router.get("/runs/{id:path}/details")
    async def run_details(id: str) -> Response:
        return json_response(await studio.with_run(id, details.describe, studio.roots))

    @router.get("/runs/{id:path}/curve")
    async def curve(id: str) -> Response:
        return json_response(await studio.with_folder(studio.library.run(id), curves.read_points))

    @router.get("/runs/{id:path}/events")
    async def events(id: str) -> Response:
        return event_stream(curves.follow_curve(studio.library.run(id)))

    @router.post("/runs/{id:path}/view/{name}")
    async def view(id: str, name: str, request: Request) -> Response:
        body = await read_body(request, Input)
        if name == "curves":
            found = studio.library.run(id)
            return json_response(await studio.with_folder(found, _show_curves, body.options))
        shown = {"text": body.text, "target": body.target, "options": body.options}
        return json_response(await studio.with_run(id, _show, name, shown))

    @router.post("/runs/{id:path}/predict")
    async def predict(id: str, request: Request) -> Response:
        body = await read_body(request, Input)
        return json_response(await studio.with_run(id, answers.predict, body.text or "", body.options))

    @router.post("/runs/{id:path}/stream")
    async def stream(id: str, request: Request) -> Response:
        return event_stream(_pieces(studio, id, await read_body(request, Input)))

    @router.post("/runs/{id:path}/search")
    async def search(id: str, request: Request) -> Response:
        return json_response(await studio.with_run(id, search_states, await read_object(request)))

    @router.post("/compare")
    async def compare(request: Request) -> Response:
        body = await read_body(request, Compared)
        found = [studio.library.run(id) for id in dict.fromkeys(body.runs)]
        data = None if body.data is None else studio.library.file(body.data)

        def compute() -> dict[str, Any]:
            names = studio.library.run_names()
            own: dict[str, Any] = {"cells": studio.cells(), "imports": studio.imports}
            return comparing.compare_runs(found, data=data, metric=body.metric, names=names, **own)

        return json_response(await studio.workers.run("compare", compute))

    @router.post("/lesson/gradients")
    async def gradients(request: Request) -> Response:
        body = await read_body(request, GradientLesson)
        return json_response(await studio.workers.run("lesson", lambda: show_gradients(body, studio.cells())))

    return router


def _show_curves(found: Found, options: Mapping[str, Any]) -> dict[str, Any]:
    return views.show_curves(found.folder, options)


def _show(run: Any, name: str, shown: Mapping[str, Any]) -> dict[str, Any]:
    return views.show(name, run, **shown)


def _info(studio: Studio) -> dict[str, Any]:
    names = studio.cell_names()
    return {
        "version": __version__,
        "themes": {**THEMES, "on_dark": ON_DARK},
        "views": views.describe_views() if can_draw() else [],
        "cells": names,
        "toys": list(describe_toys()),
        "toy_kinds": describe_toys(),
        "learn": describe_settings(),
        "lesson": describe_lesson(),
        "limits": {
            "characters": MAX_CHARACTERS,
            "picture_bytes": MAX_PICTURE_BYTES,
            "table_rows": MAX_ROWS,
            "seconds": COMPUTE_SECONDS,
            "compared_runs": comparing.MAX_COMPARED,
            "options": {name: {"low": low, "high": high} for name, (_, low, high) in answers.BOUNDS.items()},
        },
        "writable": studio.token.secret is not None,
    }


async def _pieces(studio: Studio, id: str, body: Input) -> AsyncIterator[Event]:
    """Yield the pieces of a text; an error is an event too, because the response has begun."""
    try:
        found = studio.library.run(id)

        def begin() -> Any:
            return answers.stream(studio.runs().get(found), body.text or "", body.options)

        async for name, data in studio.workers.iterate(f"run {found.id}", begin):
            yield Event(name, data)
    except TimeoutError:
        yield Event("error", {"message": f"took more than {COMPUTE_SECONDS:g} s", "cure": "set a smaller max_length"})
    except WeftError as error:
        yield Event("error", describe_error(error)[1]["error"])
