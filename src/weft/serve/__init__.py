"""The parts of an HTTP service that the studio and the server share: application, checks, limits, event streams."""

from weft.serve.application import create_application
from weft.serve.errors import HTTPError, describe_error
from weft.serve.events import Event, Feed, event_stream
from weft.serve.guard import Guard, Limits
from weft.serve.listening import Listener, listen, run_server
from weft.serve.token import Token
from weft.serve.workers import Workers

__all__ = [
    "Event",
    "Feed",
    "Guard",
    "HTTPError",
    "Limits",
    "Listener",
    "Token",
    "Workers",
    "create_application",
    "describe_error",
    "event_stream",
    "listen",
    "run_server",
]
