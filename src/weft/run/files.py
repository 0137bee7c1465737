"""Files of a run: written whole or not at all, and told in one line where that fails. No pickle, no code."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from weft.disk import sync
from weft.errors import Fault, RunError


def write_file(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` make the file under a temporary name, bring it to the disk, and only then give it its name."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with writing(path, cure="the file that was there is untouched"):
            write(temporary)
            sync(temporary)
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def writing(path: Path, *, cure: str) -> Iterator[None]:
    """What the system refuses inside the block, such as room on a full disk, is told in one line."""
    try:
        yield
    except Fault as fault:  # of a file among those that are written here
        raise Fault(fault.what, where=str(path), cure=cure) from None
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or str(error).removeprefix("Error while serializing: ")
        raise Fault(f"cannot be written: {reason}", where=str(path), cure=cure) from None


def write_text(path: Path, text: str) -> None:
    def write(temporary: Path) -> None:
        temporary.write_text(text, encoding="utf-8", newline="\n")

    write_file(path, write)


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RunError(f"has no {path.name}", where=str(path.parent), cure="is it a run that weft wrote?") from None
    except (OSError, ValueError) as error:
        raise RunError(f"cannot be read: {error}", where=str(path)) from None
