"""Files of a run: written whole or not at all, known by name, checked by hash. No pickle, no code."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from weft.errors import Fault, RunError

FORMAT_VERSION = 1
MANIFEST = "manifest.json"


@contextmanager
def claimed(out: str | Path | None, task: str) -> Iterator[Path]:
    """A new or empty folder for a run; it is removed again if the block fails before anything was written."""
    folder = claim(out, task)
    try:
        yield folder
    except BaseException:
        with suppress(OSError):  # a folder that is not empty stays
            folder.rmdir()
            if out is None:
                folder.parent.rmdir()
        raise


def claim(out: str | Path | None, task: str) -> Path:
    """The given folder, or the next free `runs/TASK-N`, made if need be; it must be empty and writable."""
    folder = Path(out) if out is not None else _next_free(Path("runs"), task)
    if folder.exists() and not folder.is_dir():
        raise RunError("is a file, not a folder", where=str(folder), cure="choose another --out")
    if folder.exists() and any(folder.iterdir()):
        raise RunError("is not empty", where=str(folder), cure="choose another --out, or remove the folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".writable").touch()
        (folder / ".writable").unlink()
    except OSError as error:
        reason = error.strerror or str(error)
        raise RunError(f"cannot be written: {reason}", where=str(folder), cure="choose another --out") from None
    return folder


def _next_free(parent: Path, task: str) -> Path:
    numbers = [
        int(match[1])
        for path in (parent.iterdir() if parent.is_dir() else ())
        if (match := re.fullmatch(rf"{task}-(\d+)", path.name))
    ]
    return parent / f"{task}-{max(numbers, default=0) + 1}"


def write_file(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` make the file under a temporary name, bring it to the disk, and only then give it its name."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        write(temporary)
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise Fault(
            f"cannot be written: {reason}", where=str(path), cure="the file that was there is untouched"
        ) from None
    finally:
        temporary.unlink(missing_ok=True)


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


def write_manifest(folder: Path, names: list[str]) -> None:
    """The hash of each of these files. It is written last, so a folder that has one is complete."""
    write_json(
        folder / MANIFEST, {"format_version": FORMAT_VERSION, "sha256": {name: _hash(folder / name) for name in names}}
    )


def drop_manifest(folder: Path) -> None:
    """While files change the folder does not claim to be complete."""
    (folder / MANIFEST).unlink(missing_ok=True)


def verify(folder: Path) -> None:
    """Every file of the manifest is there and is what was written."""
    if not folder.is_dir():
        raise RunError("is not a run folder", where=str(folder), cure="give the folder that `weft train` wrote")
    if not (folder / MANIFEST).exists():
        cure = "training ended before its first validation, or this is no run; train again"
        raise RunError(f"has no {MANIFEST}", where=str(folder), cure=cure)
    manifest = read_json(folder / MANIFEST)
    if not isinstance(manifest, dict) or not isinstance(manifest.get("sha256"), dict):
        raise RunError("is damaged", where=str(folder / MANIFEST))
    if manifest.get("format_version", 0) > FORMAT_VERSION:
        raise RunError("was written by a newer weft", where=str(folder), cure="upgrade: pip install -U weft")
    for name, expected in manifest["sha256"].items():
        path = folder / name
        if Path(name).name != name or path.is_symlink() or not path.is_file():
            raise RunError(f"lacks {name}", where=str(folder), cure="copy the whole folder again")
        if _hash(path) != expected:
            raise RunError("is damaged: its hash is not that of the manifest", where=str(path), cure="copy it again")


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
