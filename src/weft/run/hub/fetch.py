"""Downloads a run into a temporary folder, and checks all of it before the folder gets its name.

    manifest.json   read first: it lists the files of the run with their SHA-256
    listed files    fetched if weft has such files, each within its limit, and compared with their hashes
    README.md, report.json   fetched where they are; the manifest does not list them
    all else        left where it is

Then the run is loaded once, as `weft.load` does it, so that a folder that cannot be used is never left behind. A
download that is interrupted leaves its part, and the next one goes on from there.
"""

from __future__ import annotations

import os
import re
import shutil
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from weft import limits
from weft.disk import read_regular, sync
from weft.errors import Fault, RunError, WeftError
from weft.run.folder.files import CARD, CONFIG, LABELS, MANIFEST, REPORT, STATISTICS, WEIGHTS, shorten, writing
from weft.run.folder.manifest import RunFiles, hash_file, parse_manifest
from weft.run.hub.address import Address
from weft.run.hub.client import Hub, RemoteFiles

if TYPE_CHECKING:
    from weft.nn import CellClass

Cells = Mapping[str, "CellClass"]

UNLISTED: Final = (CARD, REPORT)
"""Files that belong to a run and are not in its manifest: training ends before they are written."""

MAX_TOKENIZERS: Final = 16

NOT_COMPLETE: Final = "its owner must push it again"

_TOKENIZER: Final = re.compile(r"tokenizer(_[a-z]{1,20})?\.json")


def is_part_of_run(name: str) -> bool:
    """Return whether the manifest of a run may list a file of this name."""
    return name in (CONFIG, WEIGHTS, LABELS, STATISTICS) or _TOKENIZER.fullmatch(name) is not None


class Wanted(NamedTuple):
    """A file to download: its name, its size, and the hashes it may have; any for a file that is not listed."""

    name: str
    size: int
    hashes: tuple[str, ...]


def fetch(hub: Hub, remote: RemoteFiles, part: Path, folder: Path, *, cells: Cells | None = None) -> None:
    """Download the run into `part`, check it, and rename that folder to `folder`, which is empty or missing.

    A run that is refused leaves nothing; where the network fails, `part` stays for the next call.
    """
    _make(part)
    try:
        _download(hub, remote, part)
        _check(hub.address, part, cells)
        with writing(folder, cure="nothing of it is left"):
            for path in (*part.iterdir(), part):
                sync(path)
            part.replace(folder)
            sync(folder.parent)
    except (Fault, KeyboardInterrupt):
        if not any(path.lstat().st_size for path in part.glob("*") if path.name != MANIFEST):
            shutil.rmtree(part, ignore_errors=True)
        raise
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def _make(part: Path) -> None:
    """Make the folder of a download, or find that of an earlier one; it may be no link and no file."""
    with writing(part, cure="choose another folder"):
        part.mkdir(parents=True, exist_ok=True)
    if part.is_symlink() or any(path.is_symlink() or not path.is_file() for path in part.iterdir()):
        raise Fault("is no folder of a download", where=str(part), cure="remove it")


def _download(hub: Hub, remote: RemoteFiles, part: Path) -> None:
    size = _size(hub.address, MANIFEST, remote, limits.CONFIG_FILE_BYTES)
    (part / MANIFEST).unlink(missing_ok=True)  # small, and needed whole
    hub.download(MANIFEST, remote.commit, part / MANIFEST, size=size)
    content = read_regular(part / MANIFEST, most=limits.CONFIG_FILE_BYTES)
    files = _parse(hub.address, content, part)
    wanted = [
        Wanted(name, _size(hub.address, name, remote, _limit(hub, name)), files.hashes[name]) for name in files.hashes
    ]
    for name in UNLISTED:
        if remote.sizes.get(name, limits.SMALL_FILE_BYTES + 1) <= limits.SMALL_FILE_BYTES:
            wanted.append(Wanted(name, remote.sizes[name], ()))
    _check_space(part, sum(one.size for one in wanted))
    for path in part.iterdir():  # of an earlier attempt
        if path.name != MANIFEST and path.name not in {one.name for one in wanted}:
            path.unlink()
    for one in wanted:
        _download_one(hub, remote.commit, one, part / one.name)


def _parse(address: Address, content: bytes, part: Path) -> RunFiles:
    try:
        files = parse_manifest(content, part)
    except RunError as error:
        raise _renamed(error, part, address) from None
    where = f"{address}/{MANIFEST}"
    if CONFIG not in files.hashes or WEIGHTS not in files.hashes:
        lacking = CONFIG if CONFIG not in files.hashes else WEIGHTS
        raise RunError(f"lists no {lacking}", where=where, cure=NOT_COMPLETE)
    if sum(bool(_TOKENIZER.fullmatch(name)) for name in files.hashes) > MAX_TOKENIZERS:
        raise RunError(f"lists more than {MAX_TOKENIZERS} tokenizers", where=where)
    return files


def _limit(hub: Hub, name: str) -> int:
    """Return the most bytes of a file of a run; raise for a file that no run has."""
    if _TOKENIZER.fullmatch(name):
        return limits.TOKENIZER_FILE_BYTES
    if name == WEIGHTS:
        return limits.TENSORS_FILE_BYTES
    if name in (CONFIG, LABELS, STATISTICS):
        return limits.SMALL_FILE_BYTES
    raise RunError(f"lists {shorten(name)}, which is no part of a run", where=f"{hub.address}/{MANIFEST}")


def _size(address: Address, name: str, remote: RemoteFiles, most: int) -> int:
    size = remote.sizes.get(name)
    if size is None and name == MANIFEST:
        cure = "is it a run that `weft push` sent? `weft import` takes folders of other software"
        raise RunError(f"has no {MANIFEST}, so it is no run of weft", where=str(address), cure=cure)
    if size is None:
        raise RunError(f"lacks {name}, which its {MANIFEST} lists", where=str(address), cure=NOT_COMPLETE)
    if size > most:
        raise RunError(f"has {size:,} bytes, and {most:,} is the limit", where=f"{address}/{name}")
    return size


def _check_space(part: Path, needed: int) -> None:
    begun = sum(path.stat().st_size for path in part.iterdir())
    free = shutil.disk_usage(part).free
    if needed - begun > free:
        what = f"{needed:,} bytes are needed there, and {free:,} are free"
        raise RunError(what, where=str(part.parent), cure="make room, or choose another folder")


def _download_one(hub: Hub, commit: str, one: Wanted, path: Path) -> None:
    """Download a file and compare its hash; if an old part of it does not fit, the whole file is fetched once more."""
    for fresh in (False, True):
        begun = path.exists() and path.stat().st_size > 0
        hub.download(one.name, commit, path, size=one.size)
        if not one.hashes or hash_file(path) in one.hashes:
            return
        path.unlink()
        if not begun or fresh:
            what = f"is damaged: its hash is not that of {MANIFEST}"
            raise RunError(what, where=f"{hub.address}/{one.name}", cure=NOT_COMPLETE)


def _check(address: Address, part: Path, cells: Cells | None) -> None:
    """Load the run as `weft.load` does."""
    from weft.run.load import load

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of layers of no units, which are then refused
            load(part, device="cpu", cells=cells)
    except RunError as error:
        raise _renamed(error, part, address) from None


def _renamed(error: WeftError, part: Path, address: Address) -> RunError:
    """Return an error that names the address in place of the folder of the download."""
    what, where = (
        text.replace(f"{part}{os.sep}", f"{address}/").replace(str(part), str(address))
        for text in (error.what, error.where or "")
    )
    cure = error.cure if error.cure and "copy" not in error.cure else NOT_COMPLETE
    return type(error)(what, where=where or str(address), cure=cure) if isinstance(error, RunError) else RunError(what)
