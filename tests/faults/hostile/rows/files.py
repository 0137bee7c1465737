"""Files that are no files: links, pipes, folders, devices, and files that never end."""

from __future__ import annotations

import os
from pathlib import Path

from tests.faults.hostile.change import FILES, Change, all_of, device, directory, fifo, link, sparse, unix_socket
from tests.faults.hostile.row import AS_BEFORE, EITHER, Expected, Row, noticed, refused

ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


def _row(name: str, change: Change, expected: Expected, command: str = "predict", base: str = "classify") -> Row:
    return Row("links and pipes", name, change, expected, command, base)


def _unreadable(name: str) -> Change:
    return lambda folder: (folder / name).chmod(0)


def _link_above(folder: Path) -> None:
    """The folder itself is given by a link, as people do."""
    folder.rename(folder.with_name("real"))
    folder.symlink_to("real")


INSTEAD = {
    "a pipe that nobody writes to": fifo,
    "a folder": directory,
    "a socket": unix_socket,
    "a link to a file elsewhere": lambda name: link(name, "{kept}"),
    "a link to /dev/zero": lambda name: link(name, "/dev/zero"),
    "a link to itself": lambda name: link(name, name),
    "a link to nothing": lambda name: link(name, "absent"),
    **({"an endless device": device} if ROOT else {"unreadable": _unreadable}),
}
READ_BY_RESUME = ("manifest.json", "state.json", "state.safetensors", "model.safetensors")
NEWEST = "checkpoints/6"

ROWS = [
    *(
        _row(f"{name} is {what}", make(name), refused(name.replace(".", r"\.")))
        for name in FILES
        for what, make in INSTEAD.items()
    ),
    _row("the run is given by a link", _link_above, AS_BEFORE),
    _row("report.json is a pipe", fifo("report.json"), EITHER, "compare"),
    _row("report.json is a link to /dev/zero", link("report.json", "/dev/zero"), EITHER, "compare"),
    _row("report.json is a link to a secret", link("report.json", "../outside/secret"), EITHER, "compare"),
    _row("report.json is a folder", directory("report.json"), EITHER, "compare"),
    _row("metrics.jsonl is a pipe, compared", fifo("metrics.jsonl"), EITHER, "compare"),
    *(
        _row(
            f"{NEWEST}/{name} is {what}", INSTEAD[what](f"{NEWEST}/{name}"), noticed("checkpoint"), "resume", "halfway"
        )
        for name in READ_BY_RESUME
        for what in ("a pipe that nobody writes to", "a link to /dev/zero", "a folder")
    ),
    _row("checkpoints is a link", link("checkpoints", "{kept}"), refused("checkpoints"), "resume", "halfway"),
    _row("checkpoints is a pipe", fifo("checkpoints"), refused("checkpoints"), "resume", "halfway"),
    _row("the newest checkpoint is a link", link(NEWEST, "3"), noticed("checkpoint"), "resume", "halfway"),
    _row(
        "metrics.jsonl is a link",
        link("metrics.jsonl", "../outside/secret"),
        refused("metrics.jsonl"),
        "resume",
        "halfway",
    ),
    _row("metrics.jsonl is a pipe, resumed", fifo("metrics.jsonl"), refused("metrics.jsonl"), "resume", "halfway"),
    _row("metrics.jsonl is a folder", directory("metrics.jsonl"), refused("metrics.jsonl"), "resume", "halfway"),
    _row("report.json is a link, resumed", link("report.json", "../outside/secret"), EITHER, "resume", "halfway"),
    _row("README.md is a link", link("README.md", "../outside/secret"), EITHER, "resume", "halfway"),
    _row("config.json is a link, resumed", link("config.json", "../outside/secret"), EITHER, "resume", "halfway"),
    _row(".writable is a link", link(".writable", "../outside/new"), EITHER, "resume", "halfway"),
    _row("tensorboard is a link", link("tensorboard", "../outside"), EITHER, "resume", "halfway"),
    _row("manifest.json is a link, resumed", link("manifest.json", "../outside/secret"), EITHER, "resume", "halfway"),
    _row("a leftover is a link to a folder", link(".x.tmp", "../outside"), EITHER, "resume", "halfway"),
    _row("a leftover is a folder", directory(".x.tmp"), EITHER, "resume", "halfway"),
    _row(
        "a leftover of a checkpoint is a link", link("checkpoints/.x.tmp", "../../outside"), EITHER, "resume", "halfway"
    ),
    _row("a leftover of a checkpoint is a pipe", fifo("checkpoints/.x.tmp"), EITHER, "resume", "halfway"),
    *(Row("sizes", f"{name} of a terabyte", sparse(name), refused(name)) for name in FILES),
    Row("sizes", "config.json of a terabyte, inspected", sparse("config.json"), refused("config.json"), "inspect"),
    Row("sizes", "report.json of a terabyte", sparse("report.json"), EITHER, "compare"),
    Row("sizes", "metrics.jsonl of a terabyte", sparse("metrics.jsonl"), EITHER, "compare"),
    Row("sizes", "all files of a terabyte", all_of(*map(sparse, FILES)), refused("json")),
    *(
        Row(
            "sizes",
            f"{name} of a checkpoint of a terabyte",
            sparse(f"{NEWEST}/{name}"),
            noticed("checkpoint"),
            "resume",
            "halfway",
        )
        for name in READ_BY_RESUME
    ),
    Row("sizes", "metrics.jsonl of a terabyte, resumed", sparse("metrics.jsonl"), EITHER, "resume", "halfway"),
]
