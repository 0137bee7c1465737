"""Resuming a run: find its newest checkpoint, and check that settings and data are those it began with."""

from __future__ import annotations

import hashlib
import json
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from weft.catalog import TASKS
from weft.config import Config, difference, merge, validate
from weft.data import Examples, Ragged
from weft.errors import ConfigError, RunError
from weft.nn import CellClass
from weft.run.folder.checkpoint import STATE, Checkpoints, read_plain
from weft.run.folder.files import JOURNAL, REPORT, shorten
from weft.run.folder.manifest import FORMAT_VERSION, check_version, read_run
from weft.run.prepare import Prepared
from weft.run.report import versions
from weft.run.start import Start, changed_runs, resumed_start
from weft.run.stored import load_config
from weft.tasks import Tree
from weft.tasks.sections import written

LENGTH_SETTINGS = ("train.epochs", "train.steps", "train.seconds", "train.patience")
"""Settings that say when training ends; a resumed run may ask for more."""

FREE_SETTINGS = ("name", "train.checkpoint_every", "train.compile", "train.device", "train.skip_bad", "train.threads")
"""Settings that may change in a resumed run: they say where and how it runs, not what is learned."""

PATH_SETTINGS = ("data.train", "data.valid", "data.test")
"""Settings that say where the data is. A file may have moved: the fingerprint says whether it is the same."""


CHUNK_TOKENS: Final = 1 << 20
"""Tokens that are hashed at once; the fingerprints of old checkpoints cover only the first chunk."""

ALL_TOKENS: Final = "all:"
"""The beginning of a fingerprint of all tokens."""

FINGERPRINT_PARTS: Final = ("known", "train", "valid", "test")
"""The hashes of a fingerprint: of vocabularies and labels, and of the parts of the data."""


@dataclass(frozen=True)
class ResumePoint:
    """The checkpoint from which a run is resumed; without one it starts from the beginning."""

    checkpoint: Path | None = None
    total: int = 0
    """Updates that the run was to make in all."""
    journal: int = 0
    """Bytes of the journal when the checkpoint was written."""
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    finished: bool = False


def resume_run(folder: Path, prepared: Prepared, *, cells: Mapping[str, CellClass] | None = None) -> ResumePoint:
    """Find the newest checkpoint, and remove what later updates and interrupted writes left in the folder."""
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
            return ResumePoint(finished=True)
        if head and (changed := changed_data(head.data, prepared)):
            what = f"was trained on other data: the content of {changed} has changed"
            raise RunError(what, where=str(folder), cure="put the old file back, or choose another --out")
        if finished and not longer:
            return ResumePoint(finished=True)
        if not head:
            raise RunError("has no checkpoint to go on from", where=str(folder), cure="train again in another folder")
        notes = (*notes, *_versions_differ(head.versions), *_journal_differs(folder, head.journal))
        notes = (*notes, *changed_runs(head.start["runs"] if head.start else {}))
    (folder / REPORT).unlink(missing_ok=True)
    if path is None or head is None:
        return ResumePoint()
    return ResumePoint(path, head.total, head.journal, head.seconds, notes)


class CheckpointHead(NamedTuple):
    """The description of a run in its checkpoints, as `checkpoint_head` makes it, with the size of the journal."""

    config: Tree
    data: str
    total: int
    journal: int
    seconds: float
    versions: dict[str, str]
    start: Tree | None = None
    """The hash of each run that the training started from, and the parameters that were new."""


def read_head(checkpoint: Path) -> CheckpointHead:
    """Read the head of a checkpoint; raise if it is not as weft writes it."""
    state = read_plain(checkpoint)
    check_version(state.get("format_version", FORMAT_VERSION), str(checkpoint / STATE))
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
            raise RunError(f'has no "{name}" as weft writes it', where=str(checkpoint / STATE), cure=cure)
    start = state.get("start")
    if start is not None and not _describes_start(start):
        cure = "remove the folder of this checkpoint, or train again in another one"
        raise RunError('has no "start" as weft writes it', where=str(checkpoint / STATE), cure=cure)
    return CheckpointHead(**{name: state[name] for name in kinds}, start=start)


def _describes_start(start: Any) -> bool:
    runs, new = (start.get(name) for name in ("runs", "new")) if isinstance(start, dict) else (None, None)
    if not isinstance(runs, dict) or not isinstance(new, list):
        return False
    return all(isinstance(one, str) for one in (*runs, *runs.values(), *new))


def read_resumed_start(folder: Path, tree: Tree) -> Start | None:
    """Return what the newest checkpoint of a run holds of the runs that it started from; None without any."""
    path = Checkpoints(folder).newest().path if written(tree, "train", "start") is not None else None
    head = read_head(path) if path else None
    if path is None or head is None or head.start is None:
        return None
    described = {"config": head.config, "start": head.start}
    return read_run(path, lambda files: resumed_start(tree, described, files))


def validate_config(checkpoint: Path, head: CheckpointHead, cells: Mapping[str, CellClass] | None) -> Config:
    """Return the configuration that a checkpoint was written with."""
    try:
        return validate(head.config, cells=cells, keep_unread=True)
    except ConfigError as error:
        raise RunError(str(error), where=str(checkpoint / STATE)) from None


def keep_defaults(tree: Tree, folder: Path) -> Tree:
    """Fill in the kind of model, length, batch and rate that the run in this folder began with, where the tree leaves
    them open.

    Their defaults depend on the device, and a run may be resumed on another one.
    """
    checkpoints = Checkpoints(folder)
    checkpoints.check()
    for step in reversed(checkpoints.steps()):
        with suppress(RunError, KeyError, TypeError):  # `resume_run` reports a damaged checkpoint
            config = read_head(checkpoints.folder / str(step)).config
            before, own = config["train"], tree.get("train", {})
            length = () if {"epochs", "steps"} & own.keys() else ("epochs", "steps")
            defaults = {name: before[name] for name in ("batch_tokens", "rate", *length) if name in before}
            kind = {} if tree.get("model") or "kind" not in config["model"] else {"kind": config["model"]["kind"]}
            return merge({"train": defaults, "model": kind}, tree)
    return tree


def compare(before: Config, now: Config) -> tuple[bool, list[str]]:
    """Return whether the length of the training differs, and descriptions of paths of data that differ.

    Raise if any other setting differs that changes what is learned.
    """
    own = ("train.metric", None, TASKS[now.task].metric)  # old configurations leave the task's own metric unset
    found = [found for found in difference(before, now) if found[0] not in FREE_SETTINGS and found != own]
    moved = [_differs(*change) for change in found if change[0] in PATH_SETTINGS]
    if other := [_differs(*change) for change in found if change[0] not in (*LENGTH_SETTINGS, *PATH_SETTINGS)]:
        raise _refuse(other)
    return any(path in LENGTH_SETTINGS for path, _, _ in found), moved


def _refuse(changes: list[str]) -> ConfigError:
    cure = "go on with the settings the run began with, or choose another --out"
    return ConfigError("; ".join(changes), where="--resume", cure=cure)


def _differs(path: str, old: Any, new: Any) -> str:
    return f"{path} was {_show(old)} and is {_show(new)}"


def check_total(total: int, point: ResumePoint) -> tuple[str, ...]:
    """Return a note if the training became longer; raise if it became shorter."""
    if total < point.total:
        raise ConfigError(
            f"{total:,} updates are fewer than the {point.total:,} that the run began with",
            where="--resume",
            cure="raise train.steps or train.epochs",
        )
    if point.checkpoint and total > point.total:
        return (f"{total:,} updates instead of {point.total:,}: the schedule of the rate is another from here on",)
    return ()


def checkpoint_head(prepared: Prepared, *, total: int, new: frozenset[str] = frozenset()) -> Tree:
    """Return the description of a run that its checkpoints begin with; `new` are the parameters that no other run gave
    a value."""
    start = prepared.start
    return ({} if start is None else {"start": start.describe(new)}) | {
        "format_version": FORMAT_VERSION,
        "config": prepared.config.tree(),
        "data": fingerprint(prepared),
        "total": total,
        "versions": _versions(),
    }


def journal_size(folder: Path) -> int:
    """Return the bytes of the journal so far; raise if it is not a regular file."""
    try:
        found = (folder / JOURNAL).lstat()
    except OSError:
        return 0
    if not stat.S_ISREG(found.st_mode):  # or another file would be cut and written to
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
    """Yield a note where the journal is shorter than when the checkpoint was written."""
    found = journal_size(folder)
    if found < length:
        lost = f"is shorter than it was ({found:,} of {length:,} bytes)" if found else "is gone"
        yield f"{JOURNAL} {lost}: the curves lack updates, the model lacks nothing"


def _versions() -> dict[str, str]:
    return {name: version for name, version in versions().items() if name in ("weft", "torch")}


def _show(value: Any) -> str:
    return "not set" if value is None else f'"{value}"' if isinstance(value, str) else str(value)


def fingerprint(prepared: Prepared) -> str:
    """Return hashes by which changed data is noticed, one for each of `FINGERPRINT_PARTS`.

    The hash of a part covers all lengths and tokens, and the reference texts, which may differ where tokens do not.
    """
    return ALL_TOKENS + ":".join([_hash_known(prepared).hexdigest(), *map(_hash_part, _parts(prepared))])


def changed_data(before: str, prepared: Prepared) -> str:
    """Name the files that differ from those of a fingerprint; empty if none does."""
    if not before.startswith(ALL_TOKENS):
        return "" if before == _old_fingerprint(prepared) else "the files"
    old, new = (found.removeprefix(ALL_TOKENS).split(":") for found in (before, fingerprint(prepared)))
    if len(old) != len(new):
        return "the files"
    changed = [name for name, *both in zip(FINGERPRINT_PARTS, old, new, strict=True) if both[0] != both[1]]
    if {"known", "train"} & set(changed):  # then the tokens of the other parts differ for that reason alone
        changed = ["train"]
    data = prepared.config.data
    paths = {f"data.{name}": getattr(data, name) or data.train for name in changed}
    return ", ".join(f"{name} = {json.dumps(path, ensure_ascii=False)}" for name, path in paths.items())


def _parts(prepared: Prepared) -> tuple[Examples | None, ...]:
    return prepared.train, prepared.valid, prepared.test


def _hash_known(prepared: Prepared) -> hashlib._Hash:
    codec = prepared.task.codec
    known = [tokenizer.tokens(range(len(tokenizer))) for tokenizer in codec.tokenizers.values()]
    statistics = [found.tree() for found in codec.statistics.values()]
    return hashlib.sha256(json.dumps([known, codec.labels, *statistics]).encode())


def _hash_part(examples: Examples | None) -> str:
    found = hashlib.sha256()
    for name, column in sorted(examples.columns.items()) if examples else ():
        _hash_column(found, name, column, column.size)
    for record in (examples.records or ()) if examples else ():
        found.update(json.dumps(record.sides).encode())
    return found.hexdigest()


def _hash_column(found: hashlib._Hash, name: str, column: Ragged, size: int) -> None:
    found.update(name.encode())
    for start in range(0, len(column), CHUNK_TOKENS):  # `lengths` may be one number for all rows
        found.update(np.ascontiguousarray(column.lengths[start : start + CHUNK_TOKENS]).data)
    for start in range(0, size, CHUNK_TOKENS):
        found.update(column.flat(start, start + CHUNK_TOKENS).data)


def _old_fingerprint(prepared: Prepared) -> str:
    """Return the fingerprint of old checkpoints: one hash, of the first chunk of tokens of each column."""
    found = _hash_known(prepared)
    for examples in _parts(prepared):
        for name, column in sorted(examples.columns.items()) if examples else ():
            _hash_column(found, name, column, CHUNK_TOKENS)
    return found.hexdigest()
