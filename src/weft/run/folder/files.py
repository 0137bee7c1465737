"""The names of the files in a run folder, and functions that write and read single files.

A file is written whole or not at all. An error of the system becomes one line with a cure. No file holds pickled data
or code.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from safetensors import SafetensorError

from weft.disk import atomic_write, read_regular
from weft.documents import parse_json, to_json
from weft.errors import Fault, RunError
from weft.limits import SMALL_FILE_BYTES
from weft.settings import show

CONFIG, WEIGHTS, LABELS, REPORT, CARD = "config.json", "model.safetensors", "labels.json", "report.json", "README.md"
STATISTICS = "statistics.json"
MANIFEST, JOURNAL, CHECKPOINTS = "manifest.json", "metrics.jsonl", "checkpoints"

MAX_NAME_CHARACTERS: Final = 100
"""Characters that a message shows of a name found in a file."""

OLD_FILE_INTACT: Final = "the file that was there is untouched"
NO_FILE_LEFT: Final = "nothing of it is left; make room, raise the limit, or choose another folder"


def tokenizer_file(role: str) -> str:
    """The name of the file of a tokenizer, such as tokenizer_source.json; a single tokenizer has the role ""."""
    return f"tokenizer_{role}.json" if role else "tokenizer.json"


def write_file(
    path: Path, content: bytes | Callable[[Path], object], *, before_rename: Callable[[], None] | None = None
) -> None:
    """Call `weft.disk.atomic_write`; a Fault says why the file cannot be written and whether an old one is left."""
    with writing(path, cure=OLD_FILE_INTACT if os.path.lexists(path) else NO_FILE_LEFT):
        atomic_write(path, content, before_rename=before_rename)


@contextmanager
def writing(path: Path, *, cure: str) -> Iterator[None]:
    """Turn an error of the system inside the block, such as a full disk, into one line with its cure."""
    try:
        yield
    except Fault as fault:  # of one of the files that are written here
        raise Fault(fault.what, where=str(path), cure=cure) from fault.__cause__
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or str(error).removeprefix("Error while serializing: ")
        raise Fault(f"cannot be written: {reason}", where=str(path), cure=cure) from error


def write_text(path: Path, text: str) -> None:
    """Write a text file in UTF-8."""
    write_file(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    """Write a value as an indented JSON file."""
    write_file(path, json_bytes(value))


def json_bytes(value: Any) -> bytes:
    """Return a value as indented JSON."""
    return (to_json(value, indent=2) + "\n").encode()


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn an error of the system inside the block into one line; FileNotFoundError is left to the caller."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise RunError(f"cannot be read: {error.strerror or error}", where=str(path)) from None


def read_json(path: Path) -> Any:
    """Read a JSON file that no manifest lists, such as a report; numbers in it may be NaN and Infinity."""
    try:
        with reading(path):
            return parse_json(read_regular(path, most=SMALL_FILE_BYTES), constants=True)
    except FileNotFoundError:
        raise RunError(f"has no {path.name}", where=str(path.parent), cure="is it a run that weft wrote?") from None
    except ValueError as error:
        raise RunError(f"cannot be read: {error}", where=str(path)) from None


def read_table(path: Path) -> dict[str, Any]:
    """Read a JSON file whose value must be a table, such as report.json."""
    found = read_json(path)
    if not isinstance(found, dict):
        raise RunError("is not a table", where=str(path))
    return found


def shorten(name: str) -> str:
    """Return a name that was read from a file in a form that is safe in a message."""
    whole = name.isprintable() and len(name) <= MAX_NAME_CHARACTERS
    return name if whole else f"{name!a:.{MAX_NAME_CHARACTERS}}…"


def check_path(path: object, name: str) -> None:
    """Raise where a value given in Python cannot be the path of a run folder."""
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise RunError("is no path", where=f"{name} = {show(path)}", cure="give a str or a pathlib.Path")
    if "\0" in os.fspath(path):
        raise RunError("has a NUL, which no path can have", where=f"{name} = {os.fspath(path)!a:.100}")
