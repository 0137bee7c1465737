"""The journal of a sweep, which Optuna writes and replays; it is checked here before Optuna opens it.

Optuna opens any file of that name, appends to half a line that a crash left, and fails on a line it did not write.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from optuna.storages import JournalStorage
from optuna.storages.journal import BaseJournalBackend, JournalFileBackend

from weft.disk import read_regular
from weft.documents import parse_json
from weft.errors import RunError, WeftError
from weft.limits import JOURNAL_FILE_BYTES
from weft.run.folder.files import reading, write_file

OPERATIONS: Final = range(10)
"""The values of `op_code`, which every line has: an operation on the study or on a trial."""

CURE: Final = "restore the file from a copy, or begin again with another --out"


class CheckedJournal(BaseJournalBackend):
    """A journal that is only read. `line` is the number of the last line that Optuna has read."""

    def __init__(self, path: Path, content: bytes) -> None:
        self.path, self.content, self.line = path, content, 0

    def read_logs(self, log_number_from: int) -> Iterator[dict[str, Any]]:
        for number, line in enumerate(self.content.split(b"\n")[:-1], start=1):
            self.line = number
            yield self._parse(line)

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        raise NotImplementedError

    def _parse(self, line: bytes) -> dict[str, Any]:
        found = parse_json(line, constants=True)  # a score may be NaN
        if not isinstance(found, dict):
            raise ValueError("not a table")
        code = found.get("op_code")
        if type(code) is not int or code not in OPERATIONS:
            raise ValueError(f"op_code is {code!a:.40}")
        if not isinstance(found.get("worker_id"), str):
            raise ValueError("no worker_id")
        return found


def open_journal(path: Path) -> tuple[JournalStorage, str]:
    """Open the journal for more trials; return it, and a note if half a line at its end was dropped."""
    note = ""
    try:
        with reading(path):
            content = read_regular(path, most=JOURNAL_FILE_BYTES)
    except FileNotFoundError:
        content = b""
    end = content.rfind(b"\n") + 1
    if end < len(content):
        note = f"{path}: the last line was cut off in the middle and is dropped; its trial is run again"
        content = content[:end]
        write_file(path, content)
    checked = CheckedJournal(path, content)
    try:
        JournalStorage(checked)
    except Exception as error:  # Optuna checks nothing, so a wrong line can raise anything
        raise _damaged(error, f"{path}:{checked.line}") from None
    return JournalStorage(JournalFileBackend(str(path))), note


@contextmanager
def explaining_errors(path: Path) -> Iterator[None]:
    """Turn an error of Optuna into one line: the lines of the file are well-formed, but contradict each other."""
    try:
        yield
    except (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        if isinstance(error, WeftError):
            raise
        raise _damaged(error, str(path)) from error


def _damaged(error: Exception, where: str) -> RunError:
    reason = " ".join(str(error).split()) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
    return RunError(f"is damaged, no journal that Optuna wrote: {reason:.200}", where=where, cure=CURE)
