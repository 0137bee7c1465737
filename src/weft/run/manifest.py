"""manifest.json: the names and hashes of the files that make up a run or a checkpoint."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from weft.errors import RunError
from weft.run.files import read_json, write_json

FORMAT_VERSION = 1
MANIFEST = "manifest.json"


def write_manifest(folder: Path, hashes: Mapping[str, str | Sequence[str]]) -> None:
    """The hash of each file, or two while one takes the place of another. A folder that has a manifest is complete."""
    listed = {name: found if isinstance(found, str) else list(found) for name, found in hashes.items()}
    write_json(folder / MANIFEST, {"format_version": FORMAT_VERSION, "sha256": listed})


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
        if hash_file(path) not in ([expected] if isinstance(expected, str) else expected):
            raise RunError("is damaged: its hash is not that of the manifest", where=str(path), cure="copy it again")


def hash_file(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
