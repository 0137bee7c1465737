"""Files that are there as a whole or not at all, and stay there when the machine goes down."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Write a file under another name, bring it to the disk, and only then give it its name."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".write-", delete=False, encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    Path(file.name).replace(path)


def sync(path: Path) -> None:
    """Bring a file, or the names in a folder, to the disk. Only POSIX can open a folder for it."""
    if path.is_dir() and os.name != "posix":
        return
    opened = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
