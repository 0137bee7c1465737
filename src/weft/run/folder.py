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

from safetensors import SafetensorError

from weft.disk import sync
from weft.errors import Fault, RunError

FORMAT_VERSION = 1
MANIFEST, JOURNAL, CHECKPOINTS = "manifest.json", "metrics.jsonl", "checkpoints"


@contextmanager
def claimed(out: str | Path | None, task: str, *, resume: bool = False) -> Iterator[Path]:
    """A folder for a run, new or empty or, to resume it, its own; removed again if nothing was written before a fault.

    While the block runs no other process can resume the same run.
    """
    folder = claim(out, task, resume=resume)
    try:
        with locked(folder):
            yield folder
    except BaseException:
        with suppress(OSError):  # a folder that is not empty stays
            folder.rmdir()
            if out is None:
                folder.parent.rmdir()
        raise


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder for this process; the system lets go of it however the process ends. Only POSIX has this."""
    if os.name != "posix":
        yield
        return
    import fcntl

    opened = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            cure = "wait for it, or end it"
            raise RunError("another process is training here", where=str(folder), cure=cure) from None
        yield
    finally:
        os.close(opened)


def claim(out: str | Path | None, task: str, *, resume: bool = False) -> Path:
    """The given folder, or the next free `runs/TASK-N`, made if need be; writable, and empty unless it is resumed."""
    if resume and out is None:
        raise RunError("needs the folder of the run", where="--resume", cure="add --out DIR")
    folder = Path(out) if out is not None else _next_free(Path("runs"), task)
    if folder.exists() and not folder.is_dir():
        raise RunError("is a file, not a folder", where=str(folder), cure="choose another --out")
    if folder.exists() and any(folder.iterdir()):
        if not resume:
            cure = "go on with --resume, or choose another --out" if began(folder) else "choose another --out"
            raise RunError("is not empty", where=str(folder), cure=cure)
        if not began(folder):
            raise RunError("is not empty and no run", where=str(folder), cure="choose another --out")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".writable").touch()
        (folder / ".writable").unlink()
    except OSError as error:
        reason = error.strerror or str(error)
        raise RunError(f"cannot be written: {reason}", where=str(folder), cure="choose another --out") from None
    return folder


def began(folder: Path) -> bool:
    """Whether a run began in this folder, so that what is in it may be written over."""
    names = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
    return not names or bool(names & {MANIFEST, JOURNAL, CHECKPOINTS})


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


def write_manifest(folder: Path, names: list[str]) -> None:
    """The hash of each of these files. It is written last, so a folder that has one is complete."""
    hashes = {name: _hash(folder / name) for name in names}
    write_json(folder / MANIFEST, {"format_version": FORMAT_VERSION, "sha256": hashes})


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
