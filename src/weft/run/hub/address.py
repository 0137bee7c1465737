"""Addresses of runs on the hub: hf://OWNER/NAME or hf://OWNER/NAME@REVISION.

Only a text that begins with hf:// reaches the network; every other text is the path of a folder.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from weft.errors import ConfigError

if TYPE_CHECKING:
    from weft.nn import CellClass

SCHEME: Final = "hf://"

MAIN: Final = "main"
"""The revision that an address without one means."""

_NAME: Final = r"(?!.*(?:--|\.\.))[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9_])?"
_REPOSITORY: Final = re.compile(rf"({_NAME})/({_NAME})")
_REVISION: Final = re.compile(r"(?!.*(?:\.\.|//))[A-Za-z0-9_][A-Za-z0-9._/-]{0,199}")


class Address(NamedTuple):
    """A run on the hub: its owner, its name, and a branch, a tag or a commit."""

    owner: str
    name: str
    revision: str = MAIN

    @property
    def repository(self) -> str:
        return f"{self.owner}/{self.name}"

    def __str__(self) -> str:
        return f"{SCHEME}{self.repository}" + (f"@{self.revision}" if self.revision != MAIN else "")


def is_address(path: object) -> bool:
    """Return whether a value names a run on the hub."""
    return isinstance(path, str) and path.startswith(SCHEME)


def parse_address(text: str, *, where: str | None = None) -> Address:
    """Read [hf://]OWNER/NAME[@REVISION]; `where` names the setting in errors."""
    repository, at, revision = text.removeprefix(SCHEME).partition("@")
    found = _REPOSITORY.fullmatch(repository)
    shown = f"{text!a:.120}" if not text.isprintable() else f'"{text:.120}"'
    if found is None:
        what, cure = f"{shown} is not the name of a model", "write OWNER/NAME, or OWNER/NAME@REVISION"
        raise ConfigError(what, where=where, cure=cure)
    if at and not _REVISION.fullmatch(revision):
        raise ConfigError(f"{shown} has no revision after @", where=where, cure="give a branch, a tag or a commit")
    return Address(found[1], found[2], revision or MAIN)


def local_folder(path: str | Path, *, cells: Mapping[str, CellClass] | None = None) -> Path:
    """Return the folder of a run: a path as it is, and for an address the checked copy in weft's cache.

    `cells` are the user's own cells, which the check of a new copy needs.
    """
    if not isinstance(path, str) or not is_address(path):
        return Path(path)
    from weft.run.hub.copies import copy_of

    return copy_of(parse_address(path), cells=cells)
