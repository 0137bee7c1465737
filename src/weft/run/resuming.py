"""Going on with a run: what is in its folder, and whether that is what the configuration describes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from weft.catalog import TASKS
from weft.config import Config, difference, merge, validate
from weft.errors import ConfigError, RunError
from weft.nn import CellClass
from weft.run.checkpoint import Checkpoints
from weft.run.checkpoint_state import read_plain, read_state
from weft.run.claiming import JOURNAL
from weft.run.loading import load_config
from weft.run.manifest import drop_manifest
from weft.run.preparation import Prepared
from weft.run.report import versions
from weft.run.save import REPORT
from weft.tasks import Tree

LENGTH = ("train.epochs", "train.steps", "train.patience")
"""Settings that say when a training is over; in a run that goes on they may ask for more."""

FREE = ("name", "train.checkpoint_every", "train.compile", "train.device", "train.skip_bad", "train.threads")
"""Settings that may be others in a run that goes on: they say where and how it runs, not what is learned."""

SAMPLE = 1 << 20
"""Tokens of each column that are part of the mark of the data."""


@dataclass(frozen=True)
class Resumed:
    """What a run goes on from; without a checkpoint it begins anew."""

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
        leftover.unlink(missing_ok=True)
    checkpoints = Checkpoints(folder)
    checkpoints.clean()
    finished = (folder / REPORT).exists()
    path, notes = checkpoints.newest()
    state = read_state(path) if path else {}
    if state or finished:
        kept = state.get("config")
        before = validate(kept, cells=cells, keep_unread=True) if kept else load_config(folder, cells=cells)
        longer = compare(before, prepared.config)
        if finished and not longer:
            return Resumed(finished=True)
        if not state:
            raise RunError("has no checkpoint to go on from", where=str(folder), cure="train again in another folder")
        if state["data"] != mark(prepared):
            raise RunError(
                "was trained on other data, which has changed since",
                where=str(folder),
                cure="choose another --out",
            )
        notes = (*notes, *_versions_differ(state["versions"]))
    (folder / REPORT).unlink(missing_ok=True)
    drop_manifest(folder)
    if path is None:
        return Resumed()
    return Resumed(path, state["total"], state["journal"], state["seconds"], notes)


def keep_defaults(tree: Tree, folder: Path) -> Tree:
    """The tree with the length, batch and rate that the run in this folder began with, where it leaves them open.

    Their defaults depend on the device, and a run may go on on another one.
    """
    for step in reversed(Checkpoints(folder).steps()):
        with suppress(RunError, KeyError):  # what is damaged is told of later
            before, written = (
                read_plain(Checkpoints(folder).folder / str(step))["config"]["train"],
                tree.get("train", {}),
            )
            length = () if {"epochs", "steps"} & written.keys() else ("epochs", "steps")
            kept = {name: before[name] for name in ("batch_tokens", "rate", *length) if name in before}
            return merge({"train": kept}, tree)
    return tree


def compare(before: Config, now: Config) -> bool:
    """Whether the configuration asks for a longer or shorter training; an error if it asks for another one."""
    own = ("train.metric", None, TASKS[now.task].metric)  # what an unset metric meant before it was filled in
    found = [found for found in difference(before, now) if found[0] not in FREE and found != own]
    other = [f"{path} was {_show(old)} and is {_show(new)}" for path, old, new in found if path not in LENGTH]
    if other:
        raise ConfigError(
            "; ".join(other),
            where="--resume",
            cure="go on with the settings the run began with, or choose another --out",
        )
    return bool(found)


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
    return {"config": prepared.config.tree(), "data": mark(prepared), "total": total, "versions": _versions()}


def journal_size(folder: Path) -> int:
    """Bytes of the journal so far; whoever writes it has been asked to bring it to the disk."""
    journal = folder / JOURNAL
    return journal.stat().st_size if journal.exists() else 0


def mark(prepared: Prepared) -> str:
    """A hash by which other data is noticed: of vocabularies and labels, all lengths, and the first million tokens."""
    found = hashlib.sha256()
    codec = prepared.task.codec
    known = [tokenizer.tokens(range(len(tokenizer))) for tokenizer in codec.tokenizers.values()]
    found.update(json.dumps([known, codec.labels]).encode())
    for examples in (prepared.train, prepared.valid, prepared.test):
        for name, column in sorted(examples.columns.items()) if examples else ():
            found.update(name.encode())
            for start in range(0, len(column), SAMPLE):  # in parts: one length may stand for all, and is no array
                found.update(np.ascontiguousarray(column.lengths[start : start + SAMPLE]).data)
            found.update(column.flat(0, SAMPLE).data)
    return found.hexdigest()


def _versions_differ(before: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(
        f"began with {name} {before[name]}, goes on with {version}: the numbers may differ in their last digits"
        for name, version in _versions().items()
        if before[name] != version
    )


def _versions() -> dict[str, str]:
    return {name: version for name, version in versions().items() if name in ("weft", "torch")}


def _show(value: Any) -> str:
    return "not set" if value is None else f'"{value}"' if isinstance(value, str) else str(value)
