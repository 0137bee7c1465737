"""manifest.json lists the files of a run or a checkpoint with their hashes, and every file is read by it.

A file is read only if it is listed there and is a regular file in the folder itself. It is hashed through the same
descriptor that it is then read from.

A name may have two hashes while one file replaces another: the manifest is written with both, the file is renamed, and
the manifest is written with the new hash alone. So the folder holds a whole model at every moment. A reader that finds
neither hash reads the manifest again, and starts over if it has changed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

from weft import limits
from weft.config.migrations import migrate
from weft.disk import open_regular, read_regular
from weft.documents import FORMAT_VERSION, check_version, parse_json
from weft.errors import RunError
from weft.run.folder.files import CONFIG, LABELS, MANIFEST, STATISTICS, reading, shorten, write_json
from weft.version import __version__

__all__ = [
    "FORMAT_VERSION",
    "MANIFEST",
    "RunFiles",
    "check_version",
    "drop_manifest",
    "hash_file",
    "open_run",
    "parse_manifest",
    "read_run",
    "verify",
    "write_manifest",
]

MAX_READS: Final = 10
"""Times that a folder is read anew because its files were replaced meanwhile."""

MIGRATED: Final = (CONFIG, LABELS, STATISTICS)
"""Files that differ between formats. A checkpoint has none of them; only the weft that wrote it need resume it."""

_HASH: Final = re.compile(r"[0-9a-f]{64}")

Found = TypeVar("Found")


class Replaced(Exception):
    """Files of the folder were replaced while they were read."""


def write_manifest(folder: Path, hashes: Mapping[str, str | Sequence[str]]) -> None:
    """Write the hash of each file, or two hashes while one file replaces another.

    A folder that has a manifest is complete.
    """
    listed = {name: found if isinstance(found, str) else list(found) for name, found in hashes.items()}
    head = {"format_version": FORMAT_VERSION, "weft_version": __version__}
    write_json(folder / MANIFEST, head | {"sha256": listed})


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def drop_manifest(folder: Path) -> None:
    """Remove the manifest, so that the folder does not count as complete while its files change."""
    (folder / MANIFEST).unlink(missing_ok=True)


class RunFiles:
    """The files of a folder as its manifest lists them; those of an older format are read as the current one."""

    def __init__(self, folder: Path, hashes: Mapping[str, tuple[str, ...]], version: int = FORMAT_VERSION) -> None:
        self.folder, self.hashes, self.version = folder, hashes, version
        self._migrated: dict[str, Any] | None = None

    def has(self, name: str) -> bool:
        """Return whether the file is listed; raise if it exists without being listed."""
        path = self.folder / name
        if name not in self.hashes and (path.exists() or path.is_symlink()):
            cure = "remove it, or copy the whole folder again"
            raise RunError(f"is not listed in {MANIFEST}", where=str(path), cure=cure)
        return name in self.hashes

    def only(self, names: Iterable[str]) -> None:
        """Raise where the manifest lists a file that is not among these names, and so is never read."""
        if strange := sorted(self.hashes.keys() - set(names)):
            what = f"lists {shorten(strange[0])}, which is no part of it"
            raise RunError(what, where=str(self.folder / MANIFEST), cure="copy the whole folder again")

    def read(self, name: str, *, most: int = limits.SMALL_FILE_BYTES) -> bytes:
        """Return the content of a file."""
        with self.unhashed(name, most=most) as file, reading(self.folder / name):
            content = file.read(most)
        self._check(name, hashlib.sha256(content).hexdigest())
        return content

    def read_json(self, name: str, *, constants: bool = False) -> Any:
        """Return the value of a JSON file, of an older format as the current one has it."""
        if self.version == FORMAT_VERSION or name not in MIGRATED or CONFIG not in self.hashes:
            return self._parse(name, constants=constants)
        if self._migrated is None:
            documents = {one: self._parse(one) for one in MIGRATED if self.has(one)}
            migrate(documents, self.version)
            self._migrated = documents
        return self._migrated[name]

    def _parse(self, name: str, *, constants: bool = False) -> Any:
        try:
            return parse_json(self.read(name), constants=constants)
        except ValueError as error:
            raise RunError(f"cannot be read: {error}", where=str(self.folder / name)) from None

    @contextmanager
    def opened(self, name: str, *, most: int = limits.TENSORS_FILE_BYTES) -> Iterator[BufferedReader]:
        """Open a file for reading, after it has been hashed from its first byte to its last."""
        with self.unhashed(name, most=most) as file:
            with reading(self.folder / name):
                found = hashlib.file_digest(file, "sha256").hexdigest()
                file.seek(0)
            self._check(name, found)
            yield file

    def check_all(self) -> None:
        """Raise unless every listed file exists and has its hash."""
        for name in self.hashes:
            with self.opened(
                name, most=limits.SMALL_FILE_BYTES if name.endswith(".json") else limits.TENSORS_FILE_BYTES
            ):
                pass

    @contextmanager
    def unhashed(self, name: str, *, most: int) -> Iterator[BufferedReader]:
        """Open a regular file of at most this size for reading; its hash is not checked."""
        path, opened = self.folder / name, ExitStack()
        lacking = RunError(f"lacks {name}", where=str(self.folder), cure="copy the whole folder again")
        if not self.has(name):
            self._fail(lacking)
        try:
            with reading(path):
                file = opened.enter_context(open_regular(path, most=most))
        except FileNotFoundError:
            self._fail(lacking)
        with opened:
            yield file

    def _check(self, name: str, found: str) -> None:
        if found not in self.hashes[name]:
            what, where = "is damaged: its hash is not that of the manifest", str(self.folder / name)
            self._fail(RunError(what, where=where, cure="copy it again"))

    def _fail(self, error: RunError) -> NoReturn:
        """Raise the error, or `Replaced` where the manifest has changed meanwhile."""
        if open_run(self.folder).hashes != self.hashes:
            raise Replaced from None
        raise error from None


def open_run(folder: Path) -> RunFiles:
    """Read the manifest of a run or a checkpoint. The folder may be a link; nothing in it may be one."""
    with reading(folder):
        found = folder.is_dir()
    if not found:
        raise RunError("is not a run folder", where=str(folder), cure=_cure(folder))
    path = folder / MANIFEST
    try:
        with reading(path):
            content = read_regular(path, most=limits.CONFIG_FILE_BYTES)
    except FileNotFoundError:
        cure = "training ended before its first validation, or this is no run; train again"
        raise RunError(f"has no {MANIFEST}", where=str(folder), cure=cure) from None
    return parse_manifest(content, folder)


def _cure(folder: Path) -> str:
    """The cure for a folder that is not there: perhaps it is meant to be a run on the hub."""
    cure = "give the folder that `weft train` wrote"
    if str(folder).startswith("hf:/"):  # a pathlib.Path drops the second slash
        return 'give a run on the hub as a text, not as a Path: weft.load("hf://OWNER/NAME")'
    if folder.exists() or folder.is_absolute() or len(folder.parts) != 2 or folder.parts[0] in (".", "..", "~"):
        return cure
    return f"{cure}; a run on the hub is written hf://{folder}"


def parse_manifest(content: bytes, folder: Path) -> RunFiles:
    """Return the files that a manifest lists, for a folder that may not have them yet."""
    path = folder / MANIFEST
    try:
        manifest = parse_json(content)
    except ValueError as error:
        raise RunError(f"is damaged: {error}", where=str(path), cure="copy it again") from None
    if not isinstance(manifest, dict) or not isinstance(manifest.get("sha256"), dict):
        raise RunError("is damaged: it has no table of hashes", where=str(path), cure="copy it again")
    version = check_version(manifest.get("format_version", 0), str(path), written_by=manifest.get("weft_version"))
    hashes = {name: _hashes(name, found, path) for name, found in manifest["sha256"].items()}
    return RunFiles(folder, hashes, version)


def read_run(folder: Path, read: Callable[[RunFiles], Found]) -> Found:
    """Call `read` with the files of the folder, again from the start where they are replaced meanwhile.

    So the result comes from files of one moment.
    """
    for _ in range(MAX_READS):
        try:
            return read(open_run(folder))
        except Replaced:
            continue
    raise RunError("is written all the time", where=str(folder), cure="try again later")


def verify(folder: Path) -> None:
    """Raise unless every file of the manifest exists and has its hash."""
    read_run(folder, RunFiles.check_all)


def _hashes(name: str, found: Any, path: Path) -> tuple[str, ...]:
    hashes = found if isinstance(found, list) else [found]
    plain = Path(name).name == name and name.isprintable() and "\\" not in name and ":" not in name
    if not plain or name in ("", "..", MANIFEST) or not 1 <= len(hashes) <= 2:
        raise RunError(f"is damaged at {shorten(name)}", where=str(path), cure="copy it again")
    if not all(isinstance(each, str) and _HASH.fullmatch(each) for each in hashes):
        raise RunError(f"is damaged: {shorten(name)} has no SHA-256", where=str(path), cure="copy it again")
    return tuple(hashes)
