"""The files of the page: HTML, styles and scripts of the studio, and the script that draws charts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from fastapi import APIRouter
from starlette.responses import Response

from weft import charts
from weft.charts import can_draw
from weft.serve import HTTPError

STATIC: Final = Path(__file__).parent / "static"

TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".woff2": "font/woff2",
}


def static_files() -> dict[str, Path]:
    """Return the files of the page by their names below /static; a request can name no other."""
    found = {
        path.relative_to(STATIC).as_posix(): path
        for path in sorted(STATIC.rglob("*"))
        if path.is_file() and path.suffix in TYPES
    }
    return found | {"figure.js": Path(charts.__file__).parent / "figure.js"}


def file_routes() -> APIRouter:
    """Return the routes of the page and its files."""
    router = APIRouter()

    @router.get("/")
    async def index() -> Response:
        return _answer(static_files().get("index.html"))

    @router.get("/static/vega.js")
    async def vega() -> Response:
        if not can_draw():
            raise HTTPError(501, "charts need altair and vl-convert", cure="pip install 'weft[studio]'")
        content = await asyncio.to_thread(charts.javascript)
        return Response(content, media_type=TYPES[".js"])

    @router.get("/static/{name:path}")
    async def static(name: str) -> Response:
        return _answer(static_files().get(name))

    return router


def _answer(path: Path | None) -> Response:
    if path is None:
        raise HTTPError(404, "there is no such file")
    return Response(path.read_bytes(), media_type=TYPES[path.suffix])
