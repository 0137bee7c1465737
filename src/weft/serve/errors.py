"""Errors of a service in one form: {"error": {"message": "…", "cure": "…"}} with a status of 400 or more."""

from __future__ import annotations

import logging
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from weft.documents import to_json
from weft.errors import Fault, WeftError

LOG = logging.getLogger("weft.serve")


class HTTPError(WeftError):
    """An error with the status of its response, such as 404 or 409."""

    def __init__(self, status: int, what: str, *, cure: str | None = None) -> None:
        super().__init__(what, cure=cure)
        self.status = status


def describe_error(error: BaseException) -> tuple[int, dict[str, Any]]:
    """Return the status and the body for an error. Of a mistake in weft the body has the type and the first line."""
    if isinstance(error, WeftError):
        status = error.status if isinstance(error, HTTPError) else 500 if isinstance(error, Fault) else 400
        message = ": ".join(part for part in (error.where, error.what) if part)
        return status, _body(message, error.cure)
    if isinstance(error, RequestValidationError | ValidationError):
        first = error.errors()[0]
        place = ".".join(str(part) for part in first.get("loc", ()) if part != "body")
        return 422, _body(f"{place or 'the body'}: {first.get('msg', 'is not valid')}", None)
    if isinstance(error, HTTPException):
        return error.status_code, _body(str(error.detail), None)
    if isinstance(error, MemoryError):
        return 500, _body("out of memory", "use a smaller input, or close other programs")
    said = next(iter(str(error).splitlines()), "")
    return 500, _body(f"{type(error).__name__}: {said:.300}", "this is a mistake in weft or in an imported class")


def json_response(value: Any, status: int = 200) -> Response:
    """Return a response of JSON; a number that is not finite becomes null."""
    return Response(to_json(value).encode(), status, media_type="application/json")


def answer_errors(app: FastAPI) -> None:
    """Make the application answer errors of requests in the one form; the guard answers mistakes in weft."""

    async def answer(request: Request, error: Exception) -> Response:
        status, body = describe_error(error)
        return json_response(body, status)

    for kind in (WeftError, RequestValidationError, ValidationError, HTTPException):
        app.add_exception_handler(kind, answer)


def _body(message: str, cure: str | None) -> dict[str, Any]:
    return {"error": {"message": message, "cure": cure or ""}}
