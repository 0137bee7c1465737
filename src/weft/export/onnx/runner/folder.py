"""An exported folder: manifest.json lists every file with its size and hash, and each is read once, through the
descriptor of a regular file in the folder itself."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from weft import limits
from weft.disk import read_regular
from weft.documents import check_version, parse_json
from weft.errors import RunError, shorten

MANIFEST: Final = "manifest.json"
MODEL: Final = "model.json"
WEIGHTS: Final = "weights.bin"

_HASH: Final = re.compile(r"[0-9a-f]{64}")
AGAIN: Final = "copy the whole folder again"


class Listed(NamedTuple):
    """The size and the SHA-256 of a file."""

    size: int
    hash: str


class ExportedFiles:
    """The files of a folder as its manifest lists them."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise RunError("is no folder", where=str(folder), cure="give what weft export --to onnx wrote")
        self.listed = self._manifest()

    def _manifest(self) -> Mapping[str, Listed]:
        path = self.folder / MANIFEST
        found = self._json(self._read(MANIFEST, limits.CONFIG_FILE_BYTES), MANIFEST)
        if not isinstance(found, dict) or not isinstance(found.get("files"), dict):
            raise RunError("is damaged: it has no table of files", where=str(path), cure=AGAIN)
        check_version(found.get("format_version", 0), str(path))
        return {name: self._entry(name, entry) for name, entry in found["files"].items()}

    def _entry(self, name: str, entry: Any) -> Listed:
        path = self.folder / MANIFEST
        plain = Path(name).name == name and name.isprintable() and not set(name) & set("\\:/")
        if not plain or name in ("", ".", "..", MANIFEST):
            raise RunError(
                f"lists {shorten(ascii(name))}, which is no file of this folder", where=str(path), cure=AGAIN
            )
        size, digest = (entry.get(key) if isinstance(entry, dict) else None for key in ("bytes", "sha256"))
        if type(size) is not int or size < 0 or not isinstance(digest, str) or not _HASH.fullmatch(digest):
            raise RunError(f"is damaged at {shorten(ascii(name))}", where=str(path), cure=AGAIN)
        return Listed(size, digest)

    def read(self, name: str, *, most: int = limits.TENSORS_FILE_BYTES) -> bytes:
        """The content of a file that has the size and the hash of the manifest."""
        if name not in self.listed:
            raise RunError(f"lacks {shorten(ascii(name))}", where=str(self.folder), cure=AGAIN)
        size, digest = self.listed[name]
        where = str(self.folder / name)
        if size > most:
            raise RunError(f"has {size:,} bytes, and {most:,} is the limit", where=where)
        content = self._read(name, size)
        if len(content) != size:
            what = f"is damaged: it has {len(content):,} bytes, and the manifest says {size:,}"
            raise RunError(what, where=where, cure=AGAIN)
        if hashlib.sha256(content).hexdigest() != digest:
            raise RunError("is damaged: its hash is not that of the manifest", where=where, cure=AGAIN)
        return content

    def read_json(self, name: str) -> Any:
        return self._json(self.read(name, most=limits.SMALL_FILE_BYTES), name)

    def has(self, name: str) -> bool:
        return name in self.listed

    def _read(self, name: str, most: int) -> bytes:
        path = self.folder / name
        try:
            return read_regular(path, most=most)
        except FileNotFoundError:
            raise RunError(f"lacks {shorten(ascii(name))}", where=str(self.folder), cure=AGAIN) from None
        except OSError as error:
            raise RunError(f"cannot be read: {error.strerror or error}", where=str(path)) from None

    def _json(self, content: bytes, name: str) -> Any:
        try:
            return parse_json(content)
        except ValueError as error:
            raise RunError(f"cannot be read: {error}", where=str(self.folder / name)) from None
