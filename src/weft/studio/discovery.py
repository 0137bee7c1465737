"""Finding runs and ladders: folders are listed from the paths that were given, and nothing else can be opened.

A run is known to the page by its id, its path relative to the folder that was given. An id from a request is looked up
among those that were found; it is never joined to a path. Links are not followed. Only small files are read here,
without importing torch, so that the list is there as soon as the studio starts.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from weft.disk import is_locked, read_regular
from weft.documents import parse_json
from weft.errors import RunError
from weft.limits import SMALL_FILE_BYTES
from weft.metric_text import metric_name, show_metric
from weft.serve import HTTPError

State = Literal["finished", "training", "stopped", "broken"]

CONFIG, REPORT, JOURNAL, MANIFEST, CARD = "config.json", "report.json", "metrics.jsonl", "manifest.json", "README.md"
LADDER = "ladder.json"
"""Names of files; those of `weft.run.folder.files`, whose package imports torch."""

MAX_DEPTH, MAX_FOLDERS, MAX_RUNS = 6, 20_000, 2_000
"""How deep folders are searched, how many, and how many runs are listed."""

DATA_SUFFIXES: Final = (".tsv", ".csv", ".txt", ".jsonl", ".json", ".conllu", ".gz", ".xz")
"""Endings of files that runs may be measured on."""

FRESH_SECONDS: Final = 1.0
"""A list that is younger is used again."""


@dataclass(frozen=True)
class Found:
    """A folder of a run or a ladder, or a data file, and its id."""

    id: str
    folder: Path


class Library:
    """The runs and ladders below some paths."""

    def __init__(self, paths: Sequence[str | Path]) -> None:
        self.roots = _name_roots([Path(path) for path in paths])
        self.lock = threading.Lock()
        self.listed_at = -math.inf
        self.runs: dict[str, Found] = {}
        self.ladders: dict[str, Found] = {}
        self.files: dict[str, Path] = {}

    def refresh(self, *, force: bool = False) -> None:
        """List the folders again, unless that was done a moment ago."""
        with self.lock:
            if not force and time.monotonic() - self.listed_at < FRESH_SECONDS:
                return
            self.runs, self.ladders, self.files = {}, {}, {}
            for prefix, root in self.roots.items():
                for relative, folder, names in _walk(root):
                    own = "/".join(part for part in (prefix, relative) if part) or root.resolve().name
                    if not _is_run(names):
                        self._list_files(own if relative or prefix else "", folder, names)
                    if LADDER in names and len(self.ladders) < MAX_RUNS:
                        self.ladders[own] = Found(own, folder)
                    if _is_run(names) and len(self.runs) < MAX_RUNS:
                        self.runs[own] = Found(own, folder)
            self.runs, self.ladders = _without_repeats(self.runs), _without_repeats(self.ladders)
            places = _without_repeats({own: Found(own, path) for own, path in self.files.items()})
            self.files = {own: found.folder for own, found in places.items()}
            self.listed_at = time.monotonic()

    def run(self, id: str) -> Found:
        """Return the run of that id; raise 404 where none was found under it."""
        return self._pick(id, "run", "runs")

    def ladder(self, id: str) -> Found:
        return self._pick(id, "ladder", "ladders")

    def file(self, id: str) -> str:
        """Return the path of a data file below the given folders, outside of runs; raise 404 where there is none."""
        self.refresh(force=True)
        if id not in self.files:
            cure = "only files below the folders that the studio was started with are read"
            raise HTTPError(404, f"there is no file {id!r:.100}", cure=cure)
        return str(self.files[id])

    def list_files(self) -> list[str]:
        """Return the ids of the data files that runs can be measured on."""
        self.refresh()
        return sorted(self.files)

    def _list_files(self, own: str, folder: Path, names: set[str]) -> None:
        for name in sorted(names):
            if Path(name).suffix in DATA_SUFFIXES and len(self.files) < MAX_RUNS:
                self.files[f"{own}/{name}" if own else name] = folder / name

    def _pick(self, id: str, noun: str, listed: str) -> Found:
        for force in (False, True):  # it may have begun since the folders were listed
            self.refresh(force=force)
            if id in getattr(self, listed):
                found: Found = getattr(self, listed)[id]
                return found
        raise HTTPError(404, f"there is no {noun} {id!r:.100}", cure="choose one from the list")

    def describe_runs(self) -> list[dict[str, Any]]:
        """Return a row for each run, the newest first; one that cannot be read has its error."""
        self.refresh()
        names = self.run_names()
        rows = [
            describe_run(found) | {"name": names[found.id]} for found in list(self.runs.values()) if found.id in names
        ]
        return sorted(rows, key=lambda row: -row["updated"])

    def run_names(self) -> dict[str, str]:
        """Return the short name of each run by its id."""
        self.refresh()
        ids = list(self.runs)
        return dict(zip(ids, short_names(ids), strict=True))

    def describe_ladders(self) -> list[dict[str, Any]]:
        self.refresh()
        rows = [describe_ladder(found) for found in list(self.ladders.values())]
        return sorted(rows, key=lambda row: -row["updated"])


def short_names(ids: Sequence[str]) -> list[str]:
    """Return ids without the folders that all of them lie in: runs/demo and runs/big are demo and big."""
    folders = [id.split("/")[:-1] for id in ids]
    common = 0
    for names in zip(*folders, strict=False):
        if len(set(names)) > 1:
            break
        common += 1
    return ["/".join(id.split("/")[common:]) for id in ids]


def describe_run(found: Found) -> dict[str, Any]:
    """Return what the list shows of a run."""
    folder = found.folder
    row: dict[str, Any] = {"id": found.id, "name": found.id, "task": None, "kind": None, "metric": None, "value": None}
    row |= {"metric_name": None, "shown": None}
    row |= {"parameters": None, "seconds": None, "updated": _updated(folder), "state": state_of(folder)}
    row["saved"] = _modified(folder / MANIFEST)
    try:
        config = read_table(folder / CONFIG) if (folder / CONFIG).exists() else {}
        report = read_table(folder / REPORT) if (folder / REPORT).exists() else {}
    except RunError as error:
        return row | {"state": "broken", "error": str(error)}
    if row["state"] == "broken":
        return row | {"error": f"{found.id}: has no {MANIFEST}, so its training never saved a model"}
    model = config.get("model")
    metric = metric_of(config, report)
    part = next((part for part in ("test", "valid") if isinstance(report.get(part), dict)), None)
    value = report[part].get(metric) if part is not None else None
    row |= {"task": _text(config.get("task")), "kind": _kind(model), "metric": metric, "value": _number(value)}
    if metric is not None and row["value"] is not None:
        row |= {"metric_name": metric_name(metric), "shown": show_metric(metric, row["value"])}
    return row | {"parameters": _number(report.get("parameters")), "seconds": _number(report.get("seconds"))}


def describe_ladder(found: Found) -> dict[str, Any]:
    """Return what the list shows of a ladder."""
    row: dict[str, Any] = {"id": found.id, "name": found.id, "updated": _updated(found.folder)}
    try:
        tree = read_table(found.folder / LADDER)
    except RunError as error:
        return row | {"task": None, "metric": None, "best": None, "value": None, "error": str(error)}
    best = _text(tree.get("best"))
    rungs = tree.get("rungs") if isinstance(tree.get("rungs"), list) else []
    scores = [rung.get("score") for rung in rungs or [] if isinstance(rung, dict) and rung.get("name") == best]
    value = _number(scores[0]) if scores else None
    return row | {"task": _text(tree.get("task")), "metric": _text(tree.get("metric")), "best": best, "value": value}


def state_of(folder: Path) -> State:
    """Return whether a run is finished, in training, stopped before its end, or without a model."""
    if is_locked(folder):
        return "training"
    if not (folder / MANIFEST).exists():
        return "broken"
    stopped = (folder / JOURNAL).exists() and not (folder / REPORT).exists()  # an imported run has neither
    return "stopped" if stopped else "finished"


METRICS: Final = {
    "caption": ("bleu",),
    "classify": ("accuracy", "micro_f1"),
    "embed": ("loss", "spearman", "accuracy"),
    "forecast": ("mase",),
    "lm": ("perplexity",),
    "mask": ("perplexity",),
    "regress": ("rmse",),
    "tag": ("span_f1", "accuracy"),
    "translate": ("bleu",),
}
"""The metrics of each task, of which the first that was measured is shown; a task itself cannot be asked before torch
is imported."""


def metric_of(config: dict[str, Any], report: dict[str, Any]) -> str | None:
    """Return the metric that the list shows: the one that chose the model."""
    train = config.get("train")
    measured = report.get("valid") or report.get("test")
    if not isinstance(measured, dict):
        return None
    chosen = train.get("metric") if isinstance(train, dict) else None
    names = [chosen] if isinstance(chosen, str) else METRICS.get(str(config.get("task")), ())
    return next((name for name in (*names, *measured) if name in measured), None)


def read_table(path: Path) -> dict[str, Any]:
    """Read a small JSON file whose value must be a table; a RunError says what is wrong."""
    try:
        found = parse_json(read_regular(path, most=SMALL_FILE_BYTES), constants=True)
    except OSError as error:
        raise RunError(f"cannot be read: {error.strerror or error}", where=path.name) from None
    except (ValueError, RecursionError) as error:
        raise RunError(f"cannot be read: {error}", where=path.name) from None
    if not isinstance(found, dict):
        raise RunError("is not a table", where=path.name)
    return found


def _name_roots(paths: Sequence[Path]) -> dict[str, Path]:
    """Return the paths by the prefix of their ids: none for a single path, else their names, made different."""
    if len(paths) == 1:
        return {"": paths[0]}
    roots: dict[str, Path] = {}
    for path in paths:
        name, number = path.resolve().name or "root", 1
        while (key := name if number == 1 else f"{name}-{number}") in roots:
            number += 1
        roots[key] = path
    return roots


def _without_repeats(found: dict[str, Found]) -> dict[str, Found]:
    """Return each place once, by the shortest of its ids: folders that were given may lie in each other."""
    shortest: dict[Path, Found] = {}
    for one in found.values():
        place = one.folder.resolve()
        if place not in shortest or len(one.id) < len(shortest[place].id):
            shortest[place] = one
    return {one.id: one for one in shortest.values()}


def _walk(root: Path) -> Iterator[tuple[str, Path, set[str]]]:
    """Yield (relative path, folder, names of its files) of the root and the folders below it, parents first."""
    waiting: list[tuple[str, Path, int]] = [("", root, 0)]
    seen = 0
    while waiting and seen < MAX_FOLDERS:
        relative, folder, depth = waiting.pop()
        seen += 1
        try:
            with os.scandir(folder) as entries:
                listed = sorted(entries, key=lambda entry: entry.name, reverse=True)
            names = {entry.name for entry in listed if entry.is_file(follow_symlinks=False)}
            inner = [entry.name for entry in listed if entry.is_dir(follow_symlinks=False)]
        except OSError:  # it was removed, or may not be read
            continue
        yield relative, folder, names
        if _is_run(names) or depth == MAX_DEPTH:
            continue
        for name in inner:
            if not name.startswith("."):
                waiting.append((f"{relative}/{name}" if relative else name, folder / name, depth + 1))


def _is_run(names: set[str]) -> bool:
    return bool(names & {MANIFEST, JOURNAL}) or {CONFIG, REPORT} <= names


def _updated(folder: Path) -> float:
    """Return when the run was last written, in seconds since 1970."""
    return max(_modified(folder / name) for name in (JOURNAL, REPORT, MANIFEST, LADDER))


def _modified(path: Path) -> float:
    """Return when a file was last written, 0 where it is not there."""
    try:
        return path.lstat().st_mtime
    except OSError:
        return 0.0


def _kind(model: Any) -> str | None:
    """Return the kind of a model, or those of its encoder and decoder."""
    if not isinstance(model, dict):
        return None
    parts = [model[name].get("kind") for name in ("encoder", "decoder") if isinstance(model.get(name), dict)]
    kinds = list(dict.fromkeys(kind for kind in parts if isinstance(kind, str)))
    return _text(" → ".join(kinds)) if kinds else _text(model.get("kind"))


def _text(value: Any) -> str | None:
    return value[:100] if isinstance(value, str) else None


def _number(value: Any) -> float | int | None:
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return value if plain and math.isfinite(value) else None
