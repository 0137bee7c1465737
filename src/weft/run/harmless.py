"""Settings without the folders of this machine, for a model card and for the hub.

Only files and runs that settings name are cut to their last part, and only if their path is absolute: a relative path
is as the user wrote it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Final, NamedTuple

FILES: Final = ("data.train", "data.valid", "data.test", "train.start")
"""Settings that name files or runs; what is below them too."""

VECTORS: Final = ("embedding", "file")
"""The last parts of settings of a model that name files of vectors."""


class Harmless(NamedTuple):
    """The settings, and the paths of those that were cut."""

    tree: dict[str, Any]
    cut: tuple[str, ...]


def harmless(tree: Mapping[str, Any]) -> Harmless:
    """Return the settings with absolute paths cut to their last part."""
    cut: list[str] = []
    found = {key: _cut(value, key, cut) for key, value in tree.items()}
    return Harmless(found, tuple(dict.fromkeys(cut)))


def last_part(path: str) -> str:
    """Return the name of a file or folder whose path is absolute, here or on Windows; any other text as it is."""
    if PurePosixPath(path).is_absolute():
        return Path(path).name or path
    return PureWindowsPath(path).name or path if PureWindowsPath(path).is_absolute() else path


def _cut(value: Any, path: str, cut: list[str]) -> Any:
    if isinstance(value, Mapping):
        return {key: _cut(inner, f"{path}.{key}", cut) for key, inner in value.items()}
    if isinstance(value, list):
        return [_cut(inner, path, cut) for inner in value]
    names_file = path.startswith(FILES) or (path.startswith("model.") and path.endswith(VECTORS))
    if not isinstance(value, str) or not names_file or (found := last_part(value)) == value:
        return value
    cut.append(path)
    return found
