"""Reports the error that ends a command: one line with a cure, and the exit code."""

from __future__ import annotations

import errno
import os
import re
import sys
import tempfile
import traceback
from contextlib import suppress
from typing import Final

from weft.cli.imports import imported_files, place_in_import
from weft.cli.output import errors, note, print_error
from weft.cli.streams import silence
from weft.console import visible
from weft.errors import WeftError, shorten, show_path

MISTAKE, FAULT, INTERRUPTED = WeftError.exit_code, 1, 130

CURES: Final = {
    errno.EACCES: "change its permissions, or choose another",
    errno.EPERM: "change its permissions, or choose another",
    errno.EISDIR: "name a file",
    errno.ENOTDIR: "a part of this path is a file, not a folder",
    errno.ENOENT: "check the name",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ELOOP: "the links form a circle; name the file itself",
    errno.EIO: "the device has failed; copy the file elsewhere if you can",
    errno.EROFS: "choose a folder that can be written",
    errno.EMFILE: "raise the number of open files with `ulimit -n`",
    errno.ENOSPC: "free some space, or choose another folder",
    errno.EDQUOT: "free some space, or choose another folder",
    errno.EFBIG: "choose a disk that takes larger files",
}
"""The cure for each error of the file system."""

DISK_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

OUT_OF_MEMORY: Final = ("can't allocate memory", "not enough memory", "out of memory", "cudaErrorMemoryAllocation")
"""Words in torch's errors when memory runs out."""

MEMORY_CURES: Final = {
    "train": "use a smaller train.batch_tokens or model; weft train --dry-run prints the memory it takes",
    "sweep": "use a smaller train.batch_tokens or model; weft train --dry-run prints the memory it takes",
    "ladder": "use a smaller train.batch_tokens or model, or name smaller rungs with --only",
    "predict": "use a smaller --beam or --max-length",
    "evaluate": "use a smaller --beam",
    "bench": "use smaller sizes",
}
"""The cure for too little memory, by command."""

MEMORY_CURE: Final = "close other programs, or use smaller sizes"

NUL_ERRORS: Final = ("embedded null byte", "embedded null character", "embedded null character in path")
"""Python's errors for a path with a NUL character."""


def report(error: BaseException, *, command: str = "", debug: bool = False) -> int:
    """Print an error and return the exit code: 2 for a mistake of the user, 1 for a fault, 130 for Ctrl-C."""
    if isinstance(error, BrokenPipeError):  # the reader of a pipe has closed it, as `head` does
        silence(sys.stdout)
        return 0
    if isinstance(error, KeyboardInterrupt):
        note("interrupted")
        return INTERRUPTED
    if debug:
        errors.file.write(visible("".join(traceback.format_exception(error))))
    line, code = _explain(error, command)
    if line is not None:
        print_error(line)
    elif not debug:
        _report_fault(error)
    return code


def _explain(error: BaseException, command: str) -> tuple[str | None, int]:
    """The line for an error, and its exit code; None if the mistake is in weft."""
    said = next(iter(str(error).splitlines()), "")
    if isinstance(error, WeftError):
        return str(error), error.exit_code
    if _is_out_of_memory(error, said):
        return f"out of memory{_size(said)} ({MEMORY_CURES.get(command, MEMORY_CURE)})", FAULT
    if place := place_in_import(error.__traceback__):
        return f"{place}: {type(error).__name__}: {said} (in the file you imported; --debug shows more)", MISTAKE
    if isinstance(error, RecursionError):
        return "a file or a setting is nested too deeply (--debug shows which)", MISTAKE
    if isinstance(error, UnicodeEncodeError) and error.reason == "surrogates not allowed":
        around = str(error.object)[max(0, error.start - 100) : error.end + 100]
        return f'"{around}" is not UTF-8 (rename the file, or write the character itself)', MISTAKE
    if isinstance(error, ValueError) and said in NUL_ERRORS:
        return "the name of a file has a NUL character, which no file can have (--debug shows where)", MISTAKE
    if isinstance(error, OSError) and error.strerror:
        return _explain_file(error)
    return None, FAULT


def _explain_file(error: OSError) -> tuple[str, int]:
    """FILE: reason (cure), and the exit code; a full disk or a failing device is no mistake of the user."""
    name = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else ""
    where = f"{shorten(show_path(name))}: " if name else "standard output: " if error.errno in DISK_FULL else ""
    cure = CURES.get(error.errno or 0, "--debug shows where")
    code = FAULT if error.errno in (*DISK_FULL, errno.EIO, errno.EMFILE) or not name else MISTAKE
    return f"{where}{error.strerror} ({cure})", code


def _is_out_of_memory(error: BaseException, said: str) -> bool:
    # torch's own class is a RuntimeError; comparing the words does not import torch.
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(words in said for words in OUT_OF_MEMORY)
    )


def _size(said: str) -> str:
    """The memory that could not be allocated, from an error of torch or numpy, without their file and line."""
    if found := re.search(r"[Tt]ried to allocate ([\d.]+)( \w+)", said):
        number = f"{int(found[1]):,}" if found[1].isdigit() else found[1]
        return f": {number}{found[2]} could not be allocated"
    return f": {said}" if said.startswith("Unable to allocate") else ""


def _report_fault(error: BaseException) -> None:
    """Print a mistake in weft or in an imported class, and write its traceback to a file if one can be written."""
    note("[bold red]fault[/] {}: {}", type(error).__name__, next(iter(str(error).splitlines()), ""))
    details = "run it again with --debug to see where"
    with suppress(OSError):
        with tempfile.NamedTemporaryFile("w", prefix="weft-", suffix=".log", delete=False, encoding="utf-8") as log:
            log.write("".join(traceback.format_exception(error)))
        details = f"The details are in {log.name}"
    if files := imported_files():
        note("This is a mistake in {} or in weft. {}", ", ".join(files), details)
    else:
        note("This is a mistake in weft, not yours. {}", details)
