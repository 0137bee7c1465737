"""Where weft keeps what it would otherwise have to make again: compiled kernels, the tokens of large files.

$WEFT_CACHE names the folder; else it is `weft` in $XDG_CACHE_HOME or ~/.cache. WEFT_CACHE=off keeps nothing.
"""

from __future__ import annotations

import os
from pathlib import Path

OFF = "off"


def cache_folder(name: str) -> Path | None:
    """The folder `name` of the cache, made if need be; None without a place that we can write and nobody else can."""
    asked = os.environ.get("WEFT_CACHE")
    if asked == OFF:
        return None
    try:
        folder = Path(asked or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "weft")) / name
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return folder if _ours_alone(folder) else None
    except (OSError, RuntimeError):  # no such place, or no home at all
        return None


def _ours_alone(folder: Path) -> bool:
    info = folder.stat()
    if hasattr(os, "getuid") and (info.st_uid != os.getuid() or info.st_mode & 0o022):
        return False
    return os.access(folder, os.W_OK)
