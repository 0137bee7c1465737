"""Errors of the API in OpenAI's form: {"error": {"message": "…", "type": "…", "param": "…"}}."""

from __future__ import annotations

import logging
from typing import Any, Final

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from weft.console import visible
from weft.errors import Fault, WeftError
from weft.serve.errors import HTTPError, json_response
from weft.serve.logs import log

TYPES: Final = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    429: "overloaded_error",
    503: "overloaded_error",
    504: "timeout_error",
}
"""The type of an error by its status; other mistakes of a request are `invalid_request_error`."""

PLAIN_TYPES: Final = ("str", "int", "float", "bool")

MAX_MESSAGE: Final = 1000


class RequestError(HTTPError):
    """A mistake in a request: `param` names its part."""

    def __init__(self, what: str, *, param: str | None = None, cure: str | None = None, status: int = 400) -> None:
        super().__init__(status, what, cure=cure)
        self.param = param


class Busy(HTTPError):
    """The server has too much to do; the client may try again after some seconds."""

    def __init__(self, status: int, what: str, *, after: float) -> None:
        seconds = max(1, min(60, round(after)))
        super().__init__(status, what, cure=f"try again in {seconds} s")
        self.after = seconds


def describe(error: BaseException) -> tuple[int, dict[str, Any]]:
    """Return the status and the body for an error. A fault shows nothing of what is inside the server."""
    status, message, param = 500, "the server has failed; its log has the details", None
    if isinstance(error, HTTPError):
        status, param = error.status, getattr(error, "param", None)
        message = _said(error.what, error.cure, param)
    elif isinstance(error, ValidationError):
        found = error.errors(include_url=False, include_context=False, include_input=False)[0]
        # Places of a union have the name of its member too: prompt.str, prompt.list[str].0
        place = [part for part in found["loc"] if part not in PLAIN_TYPES and "[" not in str(part)]
        param = ".".join(map(str, place)) or None
        status, message = 400, _said(str(found["msg"]).removeprefix("Value error, "), None, param)
    elif isinstance(error, Fault):
        status, message = 500, error.what
    elif isinstance(error, WeftError):
        # Options of a request are settings of [decode] elsewhere; a rule about several of them names none.
        param = (error.where or "").removeprefix("decode.").partition(" = ")[0]
        param = None if param in ("", "decode") else param
        status, message = 400, str(error).removeprefix("decode.").removeprefix("decode: ")
    elif isinstance(error, HTTPException):
        status, message = error.status_code, str(error.detail)
    elif isinstance(error, MemoryError):
        message = "out of memory (send fewer or shorter inputs)"
    kind = TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    named = {} if param is None else {"param": visible(param[:200])}
    return status, {"error": {"message": visible(message[:MAX_MESSAGE]), "type": kind, **named}}


def describe_in_stream(error: Exception) -> dict[str, Any]:
    """Return the body for an error after the response has begun; a mistake in weft is logged."""
    if not isinstance(error, WeftError):
        log("stream failed", level=logging.ERROR, error=error)
    return describe(error)[1]


def error_response(error: BaseException) -> Response:
    """Return the response for an error."""
    status, body = describe(error)
    response = json_response(body, status)
    if isinstance(error, Busy):
        response.headers["retry-after"] = str(error.after)
    if isinstance(error, HTTPException) and error.headers:
        response.headers.update(error.headers)
    if status == 401:
        response.headers["www-authenticate"] = "Bearer"
    return response


def answer_api_errors(app: Starlette) -> None:
    """Make the application answer all errors in this form."""

    async def answer(request: Request, error: Exception) -> Response:
        return error_response(error)

    for kind in (WeftError, ValidationError, HTTPException):
        app.add_exception_handler(kind, answer)


def _said(what: str, cure: str | None, param: str | None) -> str:
    where = f"{param}: " if param and not what.startswith(param) else ""
    return f"{where}{what}" + (f" ({cure})" if cure else "")
