"""The battery through other doors than reading a folder here: `weft pull` of a repository with the same files, `weft
export` and `weft serve` of the folder, and a running server that loads it again.

Whatever a row expects of `predict`, here it is: refused in one line with nothing left, or, where a hub cannot hold what
makes the folder hostile (a link, a mode), accepted; then the folder that was pulled is one that `predict` reads.
"""

from __future__ import annotations

import re
import shutil
import stat
from pathlib import Path

from tests.faults.forked import Ended
from tests.faults.hostile.attempt import COMMANDS, Battery, Result, judge
from tests.faults.hostile.row import AS_BEFORE, EITHER, Row
from tests.faults.hostile.rows import ROWS
from tests.run.hub.stand_in import StandIn, running

MAX_SERVED_BYTES = 1 << 26
"""A larger file has its size on the hub and no content: it is refused before it is fetched."""

LIMITS = {"seconds": 30.0, "gigabytes": 6.0}

EXPORTED = {"ngram": "arpa", "vectors": "vectors", "lm": "huggingface", "hmm": "c", "bag": "c"}
"""The formats of bases that are not exported as ONNX; without the change each export ends well."""

CACHES = ("tokens", "compiled", "halfway")
"""Bases that are no finished runs."""

PULLED = [row for row in ROWS if row.base not in CACHES]


def offer(folder: Path, hub: StandIn) -> None:
    """Put the regular files of a folder into a repository; git holds nothing else that the hub would send."""
    files = {}
    for path in folder.iterdir():
        info = path.lstat()
        if stat.S_ISREG(info.st_mode):
            large = info.st_size > MAX_SERVED_BYTES
            files[path.name] = b"" if large else path.read_bytes()
            if large:
                hub.faults.sizes[path.name] = info.st_size
    hub.repository("me/run", files)


def pull(battery: Battery, row: Row) -> Result:
    """Pull the changed folder from a stand-in of the hub; what is left then must be nothing, or a run."""
    folder = battery.folder(row.base)
    row.change(folder / "run")
    with running() as hub:
        offer(folder / "run", hub)
        shutil.rmtree(folder / "run")
        variables = {"HF_ENDPOINT": hub.url, "HF_HUB_DISABLE_XET": "1", "HF_TOKEN": "hf_x"}
        words = ["pull", "me/run", "--out", "pulled"]
        ended = battery.forked.run(f"{COMMANDS}:plainly", words, cwd=folder, variables=variables, **LIMITS)
    faults = judge(row._replace(expected=EITHER, command="pull"), ended, really=False)
    left = {path.name for path in folder.iterdir()} - {"outside"}
    if left != ({"pulled"} if ended.code == 0 else set()):
        faults.append(f"left {sorted(left)}")
    if ended.code == 0:
        faults += _unusable(battery, folder)
    shutil.rmtree(folder)
    return Result(tuple(faults), ended)


def _unusable(battery: Battery, folder: Path) -> list[str]:
    words = ["predict", "pulled", str(battery.base / "in.txt")]
    ended = battery.forked.run(f"{COMMANDS}:plainly", words, cwd=folder, **LIMITS)
    no_texts = "word vectors" in ended.err or "embed" in ended.err
    return [] if ended.code == 0 or no_texts else [f"pulled what predict refuses: {ended.err[-200:]!r}"]


def export(battery: Battery, row: Row) -> Result:
    """Export the changed folder; a refusal leaves nothing."""
    folder = battery.folder(row.base)
    row.change(folder / "run")
    to = EXPORTED.get(row.base, "onnx")
    words = ["export", "run", "--to", to, "--out", "exported"]
    ended: Ended = battery.forked.run(f"{COMMANDS}:plainly", words, cwd=folder, **LIMITS)
    exported = {path.name for path in folder.iterdir()} - {"run", "outside"}
    faults = judge(row._replace(expected=EITHER, command="export"), ended, really=False)
    if exported != ({"exported"} if ended.code == 0 else set()):
        faults.append(f"left {sorted(exported)}")
    shutil.rmtree(folder)
    return Result(tuple(faults), ended)


def serve(battery: Battery, row: Row) -> Result:
    """Serve the changed folder: refused before it listens, or every request is answered."""
    folder = battery.folder(row.base)
    row.change(folder / "run")
    ended = battery.forked.run(f"{COMMANDS}:served", ["serve", "run", "--port", "0"], cwd=folder, **LIMITS)
    faults = judge(row._replace(expected=EITHER, command="serve"), ended, really=False) + _failed(ended)
    shutil.rmtree(folder)
    return Result(tuple(faults), ended)


def reload(battery: Battery, row: Row) -> Result:
    """Replace the folder of a running server by the changed one: the old model stays where it is refused."""
    folder = battery.folder(row.base)
    shutil.copytree(folder / "run", folder / "good")
    row.change(folder / "run")
    ended = battery.forked.run(f"{COMMANDS}:loaded_again", ["serve", "good", "--port", "0"], cwd=folder, **LIMITS)
    faults = judge(row._replace(expected=AS_BEFORE, command="reload"), ended, really=False) + _failed(ended)
    shutil.rmtree(folder)
    return Result(tuple(faults), ended)


def _failed(ended: Ended) -> list[str]:
    """Requests that were answered by a fault of the server; the log has the reason."""
    return [f"statuses {ended.out.split()}, {ended.err[-300:]!r}"] if re.search(r"\b5\d\d\b", ended.out) else []


DOORS = {"pull": pull, "export": export, "serve": serve, "reload": reload}
