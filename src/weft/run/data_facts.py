"""Facts about the data for the report: names, sizes and hashes of files, and how many examples came from them."""

from __future__ import annotations

import hashlib
from collections.abc import Sized
from pathlib import Path
from typing import Any, Final

from weft.data.content import stamps
from weft.disk import open_regular
from weft.run.harmless import last_part
from weft.tasks import Tree

MAX_HASHED_BYTES: Final = 1 << 28
"""Bytes of the files of a part that are hashed; larger ones take longer than a report may."""

MAX_LISTED_FILES: Final = 20
"""Files that a part lists; a folder of labelled texts may have thousands."""


def describe_data(data: Any, parts: dict[str, Sized | None]) -> Tree:
    """Return the facts on each part, for those parts that the training had."""
    found: Tree = {}
    for part, examples in parts.items():
        if examples is None:
            continue
        about: Tree = {"examples": len(examples)}
        given = getattr(data, part, None)
        if part == "train" or isinstance(given, str | list):
            about["files"] = _files(given)
        else:  # a part that was set aside, or cut off the end
            about["part_of"] = "train"
        found[part] = about
    return found


def _files(paths: Any) -> list[Tree]:
    """The files of a part; empty for data given in Python, which has none, and for very many."""
    files = stamps(paths)
    if files is None or len(files) > MAX_LISTED_FILES:
        return []
    hashed = sum(file.size for file in files) <= MAX_HASHED_BYTES
    found = []
    for file in files:
        about: Tree = {"name": last_part(file.path), "bytes": file.size}
        found.append(about | ({"sha256": digest} if hashed and (digest := _digest(file.path)) else {}))
    return found


def _digest(path: str) -> str:
    """The SHA-256 of a file; empty for one that is gone, or is no plain file."""
    try:
        with open_regular(Path(path), follow=True) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""
