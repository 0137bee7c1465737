"""The routes for machines: /healthz, /readyz, /metrics, /openapi.json."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from weft.serve.errors import json_response
from weft.serve.metrics import CONTENT_TYPE
from weft.serve.openapi import describe_api
from weft.serve.service import Service
from weft.version import __version__


def health_routes(service: Service) -> list[Route]:
    """Return the routes outside of /v1."""

    async def health(request: Request) -> Response:
        """Whether the process works: if not, it should be started again."""
        fine = service.engine.alive
        return json_response({"status": "ok" if fine else "failed", "version": __version__}, 200 if fine else 503)

    async def ready(request: Request) -> Response:
        """Whether requests should be sent here."""
        models = sorted(service.models.served)
        state = "ready" if service.ready else "draining" if service.draining else "starting"
        return json_response({"status": state, "models": models}, 200 if service.ready else 503)

    async def metrics(request: Request) -> Response:
        return Response(service.metrics.show(), headers={"content-type": CONTENT_TYPE})

    async def openapi(request: Request) -> Response:
        return json_response(describe_api(service))

    return [
        Route("/healthz", health),
        Route("/readyz", ready),
        Route("/metrics", metrics),
        Route("/openapi.json", openapi),
    ]
