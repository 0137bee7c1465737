"""Files of a run: written whole or not at all, and told in one line where that fails. No pickle, no code."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from safetensors import SafetensorError

from weft.disk import read_regular, sync
from weft.documents import parse_json, to_json
from weft.errors import Fault, RunError
from weft.limits import SMALL_FILE
from weft.settings import show

NAME: Final = 100
"""Characters of a foreign name in a message."""

UNTOUCHED: Final = "the file that was there is untouched"
NOTHING_THERE: Final = "nothing of it is left; make room, raise the limit, or choose another folder"


def write_file(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` make the file under a temporary name, bring it to the disk, and only then give it its name."""
    with staged(path) as temporary:
        write(temporary)
        sync(temporary)
        temporary.replace(path)
        sync(path.parent)


@contextmanager
def staged(path: Path) -> Iterator[Path]:
    """A temporary name beside a file that is to be written; what still has it after the block is removed."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        there = os.path.lexists(path)
        with writing(path, cure=UNTOUCHED if there else NOTHING_THERE):
            yield temporary
    finally:
        with suppress(OSError):  # the folder may be gone
            temporary.unlink()


@contextmanager
def writing(path: Path, *, cure: str) -> Iterator[None]:
    """Turn an error of the system inside the block, such as a full disk, into one line with its cure."""
    try:
        yield
    except Fault as fault:  # of a file among those that are written here
        raise Fault(fault.what, where=str(path), cure=cure) from fault.__cause__
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or str(error).removeprefix("Error while serializing: ")
        raise Fault(f"cannot be written: {reason}", where=str(path), cure=cure) from error


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    def write(temporary: Path) -> None:
        temporary.write_bytes(content)

    write_file(path, write)


def write_json(path: Path, value: Any) -> None:
    write_bytes(path, json_bytes(value))


def json_bytes(value: Any) -> bytes:
    return (to_json(value, indent=2) + "\n").encode()


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn an error of the system inside the block into one line; a missing file is left to the caller."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise RunError(f"cannot be read: {error.strerror or error}", where=str(path)) from None


def read_json(path: Path) -> Any:
    """The value of a JSON file that no manifest lists, such as a report; numbers in it may be NaN and Infinity."""
    try:
        with reading(path):
            return parse_json(read_regular(path, most=SMALL_FILE), constants=True)
    except FileNotFoundError:
        raise RunError(f"has no {path.name}", where=str(path.parent), cure="is it a run that weft wrote?") from None
    except ValueError as error:
        raise RunError(f"cannot be read: {error}", where=str(path)) from None


def read_table(path: Path) -> dict[str, Any]:
    """The same of a file whose value is a table, such as report.json."""
    found = read_json(path)
    if not isinstance(found, dict):
        raise RunError("is not a table", where=str(path))
    return found


def shorten(name: str) -> str:
    """A name that a file chose, fit for a message."""
    return name if name.isprintable() and len(name) <= NAME else f"{name!a:.{NAME}}…"


def check_path(path: object, name: str) -> None:
    """Refuse what was given in Python for the folder of a run and can be none."""
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise RunError("is no path", where=f"{name} = {show(path)}", cure="give a str or a pathlib.Path")
    if "\0" in os.fspath(path):
        raise RunError("has a NUL, which no path can have", where=f"{name} = {os.fspath(path)!a:.100}")
