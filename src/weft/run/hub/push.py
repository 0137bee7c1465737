"""`weft push`: a run folder as a repository of models on the hub.

What is sent: the files that the manifest lists, each read through its hash, and README.md and report.json.
Checkpoints, the journal and everything else stay here. Absolute paths in config.json would show folders of this
machine: only their last part is sent, and the manifest that is sent has the hash of what is sent.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from weft import limits
from weft.disk import is_locked, read_regular
from weft.documents import parse_json
from weft.errors import RunError
from weft.run.card import plain_card
from weft.run.folder.files import CARD, CONFIG, LABELS, MANIFEST, REPORT, STATISTICS, WEIGHTS, check_path, json_bytes
from weft.run.folder.manifest import RunFiles, read_run
from weft.run.harmless import harmless
from weft.run.hub.address import MAIN, Address, is_address, parse_address
from weft.run.hub.client import Hub
from weft.run.hub.fetch import is_part_of_run
from weft.version import __version__

COMMIT_LETTERS: Final = 12


class Pushed(NamedTuple):
    """The address, the page for browsers, the commit, the names of the files, and the settings whose paths were cut."""

    address: Address
    page: str
    commit: str
    files: tuple[str, ...]
    cut: tuple[str, ...] = ()


class _Content(NamedTuple):
    files: dict[str, bytes | Path]
    cut: tuple[str, ...]


def push_run(folder: str | Path, to: str, *, private: bool = False, revision: str | None = None) -> Pushed:
    """Send the run in a folder to OWNER/NAME, which is made if it is missing; `revision` is a branch, else main."""
    if is_address(folder):
        raise RunError("is on the hub already", where=str(folder), cure="give the folder of a run")
    check_path(folder, "run")
    address = parse_address(to, where="OWNER/NAME")
    if revision is not None:
        if address.revision != MAIN:
            raise RunError("names a branch already", where=to, cure="leave out --revision")
        address = parse_address(f"{address.repository}@{revision}", where="--revision")
    content = read_run(Path(folder), _read)
    hub = Hub(address)
    hub.make(private=private)
    remote = hub.files()
    if private and not remote.private:
        cure = f"make it private on {hub.page}, or choose another name"
        raise RunError("is public, and --private was given; nothing was sent", where=str(address), cure=cure)
    stale = [name for name in remote.sizes if is_part_of_run(name) and name not in content.files]
    commit = hub.commit(content.files, removed=sorted(stale), message=f"A run of weft {__version__}")
    return Pushed(address, hub.page, commit, tuple(content.files), content.cut)


def _read(files: RunFiles) -> _Content:
    """Check every file of the run, and return what is sent."""
    if is_locked(files.folder):
        raise RunError("is being trained", where=str(files.folder), cure="wait for the end of the training")
    for name in files.hashes:
        if not is_part_of_run(name):
            files.only([CONFIG, WEIGHTS, LABELS, STATISTICS, *filter(is_part_of_run, files.hashes)])
    files.check_all()
    config = files.read_json(CONFIG)
    if not isinstance(config, dict):
        raise RunError("is not a table of settings", where=str(files.folder / CONFIG))
    found, cut = harmless(config)
    content: dict[str, bytes | Path] = {name: files.folder / name for name in files.hashes}
    hashes = {name: found[0] if len(found) == 1 else list(found) for name, found in files.hashes.items()}
    if cut:
        sent = json_bytes(found)
        content[CONFIG], hashes[CONFIG] = sent, hashlib.sha256(sent).hexdigest()
    manifest = parse_json(read_regular(files.folder / MANIFEST, most=limits.CONFIG_FILE_BYTES))
    content[MANIFEST] = json_bytes({**manifest, "sha256": hashes})
    return _Content(content | _unlisted(files.folder, config), cut)


def _unlisted(folder: Path, config: Mapping[str, Any]) -> dict[str, bytes | Path]:
    """The model card and the report; a run without a card, such as an imported one, gets a plain one."""
    found: dict[str, bytes | Path] = {}
    for name in (CARD, REPORT):
        try:
            found[name] = read_regular(folder / name, most=limits.SMALL_FILE_BYTES)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise RunError(f"cannot be read: {error.strerror or error}", where=str(folder / name)) from None
    return {CARD: plain_card(config).encode()} | found
