"""Structured logs: a JSON object on each line of standard error. Texts of users are in it only with --log-text."""

from __future__ import annotations

import logging
import sys
import time
import traceback
from typing import Any

from weft.documents import to_json
from weft.serve.errors import LOG


class JsonLines(logging.Handler):
    """Writes records of weft's own loggers as JSON: time, level, event, and the fields of the record."""

    def emit(self, record: logging.LogRecord) -> None:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, Any] = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[0] is not None:
            # Where it happened, and not the error's own words: they may quote the text of a user.
            line["error"] = record.exc_info[0].__name__
            line["at"] = [f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(record.exc_info[2])[-8:]]
        try:
            sys.stderr.write(f"{to_json(line)}\n")
            sys.stderr.flush()
        except (OSError, ValueError):
            return


def start_logging() -> None:
    """Write the logs of the server, and the errors of uvicorn, to standard error."""
    for name, level in ((LOG.name, logging.INFO), ("uvicorn.error", logging.ERROR)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [JsonLines()], False
        logger.setLevel(level)


def log(event: str, *, level: int = logging.INFO, error: BaseException | None = None, **fields: Any) -> None:
    """Write a line with these fields."""
    LOG.log(level, "%s", event, extra={"fields": fields}, exc_info=error)
