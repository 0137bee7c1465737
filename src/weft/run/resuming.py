"""Going on with a run: what is in its folder, and whether that is what the configuration describes."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from weft.catalog import TASKS
from weft.config import Config, difference, merge, validate
from weft.errors import ConfigError, RunError
from weft.nn import CellClass
from weft.run.checkpoint import Checkpoints
from weft.run.checkpoint_state import PLAIN, read_plain
from weft.run.claiming import JOURNAL
from weft.run.files import shorten
from weft.run.loading import load_config
from weft.run.manifest import FORMAT_VERSION, check_version
from weft.run.marks import changed_data, mark
from weft.run.preparation import Prepared
from weft.run.report import versions
from weft.run.save import REPORT
from weft.tasks import Tree

LENGTH = ("train.epochs", "train.steps", "train.patience")
"""Settings that say when a training is over; in a run that goes on they may ask for more."""

FREE = ("name", "train.checkpoint_every", "train.compile", "train.device", "train.skip_bad", "train.threads")
"""Settings that may be others in a run that goes on: they say where and how it runs, not what is learned."""

PLACES = ("data.train", "data.valid", "data.test")
"""Settings that say where the data is. A file may have moved: whether it is the same is told by the mark."""


@dataclass(frozen=True)
class Resumed:
    """The checkpoint from which a run is resumed; without one it starts from the beginning."""

    checkpoint: Path | None = None
    total: int = 0
    """Updates that the run was to make."""
    journal: int = 0
    """Bytes of the journal that were written by then."""
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    finished: bool = False


def resume_run(folder: Path, prepared: Prepared, *, cells: Mapping[str, CellClass] | None = None) -> Resumed:
    """Look for the newest checkpoint, and clear away what later updates and broken writes left in the folder."""
    for leftover in folder.glob(".*.tmp"):
        if leftover.is_symlink() or leftover.is_file():
            leftover.unlink()
    checkpoints = Checkpoints(folder)
    checkpoints.clean()
    finished = (folder / REPORT).exists()
    path, notes = checkpoints.newest()
    head = read_head(path) if path else None
    journal_size(folder)
    if head or finished:
        before = validate_config(path, head, cells) if path and head else load_config(folder, cells=cells)
        longer, moved = compare(before, prepared.config)
        if moved and not head:
            raise _refuse(moved)
        if finished and not longer and not moved:
            return Resumed(finished=True)
        if head and (changed := changed_data(head.data, prepared)):
            what = f"was trained on other data: the content of {changed} has changed"
            raise RunError(what, where=str(folder), cure="put the old file back, or choose another --out")
        if finished and not longer:
            return Resumed(finished=True)
        if not head:
            raise RunError("has no checkpoint to go on from", where=str(folder), cure="train again in another folder")
        notes = (*notes, *_versions_differ(head.versions), *_journal_differs(folder, head.journal))
    (folder / REPORT).unlink(missing_ok=True)
    if path is None or head is None:
        return Resumed()
    return Resumed(path, head.total, head.journal, head.seconds, notes)


class Head(NamedTuple):
    """What a checkpoint says of the run it belongs to, as `about` wrote it."""

    config: Tree
    data: str
    total: int
    journal: int
    seconds: float
    versions: dict[str, str]


def read_head(checkpoint: Path) -> Head:
    """The head of a checkpoint; an error if it is not what weft writes."""
    state = read_plain(checkpoint)
    check_version(state.get("format_version", FORMAT_VERSION), str(checkpoint / PLAIN))
    kinds: dict[str, Any] = {
        "config": dict,
        "data": str,
        "total": int,
        "journal": int,
        "seconds": (int, float),
        "versions": dict,
    }
    for name, kind in kinds.items():
        value = state.get(name)
        if not isinstance(value, kind) or (isinstance(value, int | float) and not 0 <= value < 1 << 53):
            cure = "remove the folder of this checkpoint, or train again in another one"
            raise RunError(f'has no "{name}" as weft writes it', where=str(checkpoint / PLAIN), cure=cure)
    return Head(**{name: state[name] for name in kinds})


def validate_config(checkpoint: Path, head: Head, cells: Mapping[str, CellClass] | None) -> Config:
    """The configuration that a checkpoint was written with."""
    try:
        return validate(head.config, cells=cells, keep_unread=True)
    except ConfigError as error:
        raise RunError(str(error), where=str(checkpoint / PLAIN)) from None


def keep_defaults(tree: Tree, folder: Path) -> Tree:
    """The tree with the length, batch and rate that the run in this folder began with, where it leaves them open.

    Their defaults depend on the device, and a run may go on on another one.
    """
    checkpoints = Checkpoints(folder)
    checkpoints.check()
    for step in reversed(checkpoints.steps()):
        with suppress(RunError, KeyError, TypeError):  # what is damaged is told of later
            before, written = read_head(checkpoints.folder / str(step)).config["train"], tree.get("train", {})
            length = () if {"epochs", "steps"} & written.keys() else ("epochs", "steps")
            kept = {name: before[name] for name in ("batch_tokens", "rate", *length) if name in before}
            return merge({"train": kept}, tree)
    return tree


def compare(before: Config, now: Config) -> tuple[bool, list[str]]:
    """Whether the configuration asks for a longer or shorter training, and how the places of its data differ.

    An error if it asks for another training.
    """
    own = ("train.metric", None, TASKS[now.task].metric)  # what an unset metric meant before it was filled in
    found = [found for found in difference(before, now) if found[0] not in FREE and found != own]
    moved = [_differs(*change) for change in found if change[0] in PLACES]
    if other := [_differs(*change) for change in found if change[0] not in (*LENGTH, *PLACES)]:
        raise _refuse(other)
    return any(path in LENGTH for path, _, _ in found), moved


def _refuse(changes: list[str]) -> ConfigError:
    cure = "go on with the settings the run began with, or choose another --out"
    return ConfigError("; ".join(changes), where="--resume", cure=cure)


def _differs(path: str, old: Any, new: Any) -> str:
    return f"{path} was {_show(old)} and is {_show(new)}"


def check_total(total: int, resumed: Resumed) -> tuple[str, ...]:
    """Notes on a training that became longer; an error if it became shorter."""
    if total < resumed.total:
        raise ConfigError(
            f"{total:,} updates are fewer than the {resumed.total:,} that the run began with",
            where="--resume",
            cure="raise train.steps or train.epochs",
        )
    if resumed.checkpoint and total > resumed.total:
        return (f"{total:,} updates instead of {resumed.total:,}: the schedule of the rate is another from here on",)
    return ()


def about(prepared: Prepared, *, total: int) -> Tree:
    """What a checkpoint says of the run it belongs to."""
    return {
        "format_version": FORMAT_VERSION,
        "config": prepared.config.tree(),
        "data": mark(prepared),
        "total": total,
        "versions": _versions(),
    }


def journal_size(folder: Path) -> int:
    """Bytes of the journal so far."""
    try:
        found = (folder / JOURNAL).lstat()
    except OSError:
        return 0
    if not stat.S_ISREG(found.st_mode):  # it would be cut and written to
        cure = "put the file itself there, or remove it"
        raise RunError("is a link or no regular file", where=str(folder / JOURNAL), cure=cure)
    return found.st_size


def _versions_differ(before: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(
        f"began with {name} {shorten(str(before.get(name)))}, goes on with {version}: "
        "the numbers may differ in their last digits"
        for name, version in _versions().items()
        if before.get(name) != version
    )


def _journal_differs(folder: Path, length: int) -> Iterator[str]:
    """A note where the journal has become shorter than it was when the checkpoint was written."""
    found = journal_size(folder)
    if found < length:
        lost = f"is shorter than it was ({found:,} of {length:,} bytes)" if found else "is gone"
        yield f"{JOURNAL} {lost}: the curves lack updates, the model lacks nothing"


def _versions() -> dict[str, str]:
    return {name: version for name, version in versions().items() if name in ("weft", "torch")}


def _show(value: Any) -> str:
    return "not set" if value is None else f'"{value}"' if isinstance(value, str) else str(value)
