"""What an error that ends a command is reported as: whose it is, in one line, and the exit code."""

from __future__ import annotations

import errno
import os
import re
import sys
import tempfile
import traceback
from contextlib import suppress
from typing import Final

from weft.cli.imports import place_in_import
from weft.cli.output import complain, errors, note
from weft.cli.streams import silence
from weft.console import visible
from weft.errors import WeftError, shorten, show_path

MISTAKE, FAULT, INTERRUPTED = WeftError.exit_code, 1, 130

CURES: Final = {
    errno.EACCES: "give yourself the right to it, or name another",
    errno.EPERM: "give yourself the right to it, or name another",
    errno.EISDIR: "name a file",
    errno.ENOTDIR: "a part of this path is a file, not a folder",
    errno.ENOENT: "is the name right?",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ELOOP: "links lead in a circle here; name the file itself",
    errno.EIO: "the device does not give it; copy it elsewhere if you can",
    errno.EROFS: "choose a place that can be written",
    errno.EMFILE: "`ulimit -n` allows more open files",
    errno.ENOSPC: "make room, or choose another place",
    errno.EDQUOT: "make room, or choose another place",
    errno.EFBIG: "choose a place that takes larger files",
}
"""What to do where the system refuses a file."""

NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

OUT_OF_MEMORY: Final = ("can't allocate memory", "not enough memory", "out of memory", "cudaErrorMemoryAllocation")
"""What torch says where the machine has no more memory; on a GPU it has a class for it besides."""

LESS: Final = {
    "train": "a smaller train.batch_tokens or model takes less; weft train --dry-run tells how much",
    "sweep": "a smaller train.batch_tokens or model takes less; weft train --dry-run tells how much",
    "predict": "a smaller --beam or --max-length takes less",
    "evaluate": "a smaller --beam takes less",
    "bench": "smaller sizes take less",
}

SMALLER: Final = "close other programs, or take smaller sizes"

NUL: Final = ("embedded null byte", "embedded null character", "embedded null character in path")


def report(error: BaseException, *, verb: str = "", debug: bool = False) -> int:
    """Say what happened and return the exit code: 2 for a person's mistake, 1 for a fault, 130 for Ctrl-C."""
    if isinstance(error, BrokenPipeError):  # the reader of our output left, as `head` does
        silence(sys.stdout)
        return 0
    if isinstance(error, KeyboardInterrupt):
        note("interrupted")
        return INTERRUPTED
    if debug:
        errors.file.write(visible("".join(traceback.format_exception(error))))
    line, code = _explain(error, verb)
    if line is not None:
        complain(line)
    elif not debug:
        _own_fault(error)
    return code


def _explain(error: BaseException, verb: str) -> tuple[str | None, int]:
    """The line for an error, and its exit code; no line where the mistake is in weft."""
    said = next(iter(str(error).splitlines()), "")
    if isinstance(error, WeftError):
        return str(error), error.exit_code
    if _is_out_of_memory(error, said):
        return f"out of memory{_how_much(said)} ({LESS.get(verb, SMALLER)})", FAULT
    if place := place_in_import(error.__traceback__):
        return f"{place}: {type(error).__name__}: {said} (in the file you imported; --debug shows more)", MISTAKE
    if isinstance(error, RecursionError):
        return "a file or a setting is nested too deeply (--debug shows which)", MISTAKE
    if isinstance(error, UnicodeEncodeError) and error.reason == "surrogates not allowed":
        around = str(error.object)[max(0, error.start - 100) : error.end + 100]
        return f'"{around}" is not UTF-8 (rename the file, or write the character itself)', MISTAKE
    if isinstance(error, ValueError) and said in NUL:
        return "the name of a file has a NUL character, which no file can have (--debug shows where)", MISTAKE
    if isinstance(error, OSError) and error.strerror:
        return _explain_file(error)
    return None, FAULT


def _explain_file(error: OSError) -> tuple[str, int]:
    """FILE: reason (cure); a full disk or a failing device is nobody's mistake."""
    name = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else ""
    where = f"{shorten(show_path(name))}: " if name else "standard output: " if error.errno in NO_ROOM else ""
    cure = CURES.get(error.errno or 0, "--debug shows where")
    code = FAULT if error.errno in (*NO_ROOM, errno.EIO, errno.EMFILE) or not name else MISTAKE
    return f"{where}{error.strerror} ({cure})", code


def _is_out_of_memory(error: BaseException, said: str) -> bool:
    # A class of torch's is a RuntimeError too, and torch need not be there to look it up.
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(words in said for words in OUT_OF_MEMORY)
    )


def _how_much(said: str) -> str:
    """What could not be had, in the words of torch or numpy, without their file and line."""
    if found := re.search(r"[Tt]ried to allocate ([\d.]+)( \w+)", said):
        number = f"{int(found[1]):,}" if found[1].isdigit() else found[1]
        return f": {number}{found[2]} could not be had"
    return f": {said}" if said.startswith("Unable to allocate") else ""


def _own_fault(error: BaseException) -> None:
    """A mistake in weft: the details go into a file, if one can be written."""
    note("[bold red]fault[/] {}: {}", type(error).__name__, next(iter(str(error).splitlines()), ""))
    details = "run it again with --debug to see where"
    with suppress(OSError):
        with tempfile.NamedTemporaryFile("w", prefix="weft-", suffix=".log", delete=False, encoding="utf-8") as log:
            log.write("".join(traceback.format_exception(error)))
        details = f"The details are in {log.name}"
    note("This is a mistake in weft, not yours. {}", details)
