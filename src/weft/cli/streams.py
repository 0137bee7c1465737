"""Standard input, output and error as they may be: closed, without a reader, or of another encoding than UTF-8."""

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
    """Standard error: what cannot be written there, for want of a reader or of room, is dropped; the work goes on."""

    def write(self, text: str) -> int:
        with suppress(OSError):
            super().write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            super().flush()


def prepare_streams() -> None:
    """Make all three usable: closed ones lead nowhere, output is UTF-8, messages never fail and are one line."""
    _fill_gaps()
    for name, mode in STREAMS.items():
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123 - open until the end
    if isinstance(sys.stdout, io.TextIOWrapper):
        # What is read is UTF-8 wherever we run, and so is what is written. Bytes of a path that are not are shown.
        errors = "backslashreplace" if sys.stdout.errors == "strict" else sys.stdout.errors
        sys.stdout.reconfigure(encoding="utf-8", errors=errors)
    if sys.stderr is sys.__stderr__ and isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr = Unfailing(
            sys.stderr.buffer, encoding=sys.stderr.encoding, errors="backslashreplace", line_buffering=True
        )
    warnings.formatwarning = lambda message, *_, **__: visible(f"note {message}\n")  # not the line that warns


def _fill_gaps() -> None:
    """Occupy the numbers 0 to 2 where they are closed: else a file opened later has one, and messages go into it.

    Programs that are started, such as a compiler, inherit them.
    """
    while (opened := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(opened, True)
    os.close(opened)


def silence(stream: object) -> None:
    """Let a stream without a reader lead nowhere, so that the interpreter does not complain when it flushes it."""
    with suppress(OSError, AttributeError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())  # type: ignore[attr-defined]
        os.close(nowhere)
