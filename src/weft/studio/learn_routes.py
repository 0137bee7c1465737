"""The routes of the learning playground. Those that start, pause or stop a training need the token."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from weft.serve import event_stream
from weft.serve.bodies import read_body
from weft.serve.errors import json_response
from weft.studio.learn import Command, Order
from weft.studio.studio import Studio


def learn_routes(studio: Studio) -> APIRouter:
    """Return the routes of the playground."""
    router = APIRouter(prefix="/api/learn")

    @router.post("")
    async def start(request: Request) -> Response:
        studio.token.check(request)
        body = await read_body(request, Order)
        return json_response({"id": await studio.workers.run("learn", lambda: studio.playground.start(body))})

    @router.get("/{id}/events")
    async def events(id: str, request: Request) -> Response:
        after = request.headers.get("last-event-id", "")
        first = int(after) if after.isdecimal() and len(after) < 16 else 0
        return event_stream(studio.playground.find(id).follow(first))

    @router.post("/{id}/{command}")
    async def command(id: str, command: Command, request: Request) -> Response:
        studio.token.check(request)
        studio.playground.find(id).command(command)
        return json_response({"id": id, "command": command})

    return router
