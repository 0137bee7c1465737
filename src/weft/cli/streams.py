"""Makes standard input, output and error usable: they may be closed, without a reader, or not in UTF-8."""

from __future__ import annotations

import io
import os
import sys
import warnings
from contextlib import suppress
from typing import Final

from weft.console import visible

STREAMS: Final = {"stdin": "r", "stdout": "w", "stderr": "w"}


class Unfailing(io.TextIOWrapper):
    """Standard error that drops a message if it cannot be written (no reader, full disk) instead of raising."""

    def write(self, text: str) -> int:
        with suppress(OSError):
            super().write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            super().flush()


def prepare_streams() -> None:
    """Replace closed streams by the null device, set output to UTF-8, and keep messages from raising."""
    _fill_gaps()
    for name, mode in STREAMS.items():
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123 - open until the end
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Input is UTF-8 on every system, so output is too. Bytes of a path that are not UTF-8 are escaped.
        errors = "backslashreplace" if sys.stdout.errors == "strict" else sys.stdout.errors
        sys.stdout.reconfigure(encoding="utf-8", errors=errors)
    if sys.stderr is sys.__stderr__ and isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr = Unfailing(
            sys.stderr.buffer, encoding=sys.stderr.encoding, errors="backslashreplace", line_buffering=True
        )
    warnings.formatwarning = lambda message, *_, **__: visible(f"note {message}\n")  # without file and line


def _fill_gaps() -> None:
    """Open the null device on those of the descriptors 0 to 2 that are closed.

    Otherwise a file opened later gets one of them, and messages are written into it. Child processes, such as a
    compiler, inherit them.
    """
    while (opened := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(opened, True)
    os.close(opened)


def silence(stream: object) -> None:
    """Redirect a stream without a reader to the null device, so that Python can flush it at exit without an error."""
    with suppress(OSError, AttributeError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())  # type: ignore[attr-defined]
        os.close(nowhere)
