"""The rungs of a ladder: the default ones of each task, and those of config files.

A rung is a configuration; it gets the task and the data of the ladder. Some are no models at all: always the most
frequent label (`majority`), the most frequent tag of each word (`per-word`), and the simple forecasts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from weft.catalog import TASKS
from weft.config import merge, read_config, read_tree
from weft.config.tree import flatten, nest
from weft.errors import ConfigError, did_you_mean
from weft.nn import CellClass
from weft.tasks import Tree
from weft.tasks.forecast_scores import BASELINES as SIMPLE_FORECASTS

MAJORITY, PER_WORD = "majority", "per-word"

BASELINES: Final = {"classify": (MAJORITY,), "tag": (PER_WORD,), "forecast": SIMPLE_FORECASTS}
"""The rungs that are no models, by task; they come first."""

DEFAULT_RUNGS: Final[dict[str, dict[str, Tree]]] = {
    "lm": {
        "ngram-2": {"kind": "ngram", "order": 2},
        "ngram-3": {"kind": "ngram", "order": 3},
        "ngram-5": {"kind": "ngram", "order": 5},
        "conv": {"kind": "conv"},
        "elman": {"kind": "rnn", "cell": "elman"},
        "lstm": {"kind": "rnn", "cell": "lstm"},
        "transformer": {"kind": "transformer"},
    },
    "classify": {
        "bag": {"kind": "bag"},
        "rnn": {"kind": "rnn"},
        "transformer": {"kind": "transformer"},
    },
    "regress": {
        "bag": {"kind": "bag"},
        "rnn": {"kind": "rnn"},
        "transformer": {"kind": "transformer"},
    },
    "tag": {
        "hmm": {"kind": "hmm"},
        "rnn": {"kind": "rnn"},
        "rnn-crf": {"kind": "rnn", "crf": True},
        "transformer": {"kind": "transformer"},
    },
    "forecast": {
        "linear": {"kind": "linear"},
        "rnn": {"kind": "rnn"},
        "conv": {"kind": "conv"},
        "transformer": {"kind": "transformer"},
    },
    "translate": {
        "rnn-first": {"encoder": {"kind": "rnn"}, "decoder": {"kind": "rnn", "context": "first"}},
        "rnn-after": {"encoder": {"kind": "rnn"}, "decoder": {"kind": "rnn", "context": "after"}},
        "transformer": {"encoder": {"kind": "transformer"}, "decoder": {"kind": "transformer"}},
    },
}
"""The `[model]` tables of each task's rungs, from the cheapest to the strongest, by their names."""

FREE_NAMES: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")
"""Characters of a rung's name, which is the name of its folder."""


@dataclass(frozen=True)
class Rung:
    """A rung by its name: the settings that it is trained with, or None for one that is no model.

    `error` says why a default rung cannot be trained with the settings of the data; it is left out.
    """

    name: str
    settings: Tree | None
    error: str = ""

    def tree(self) -> Tree:
        """As plain values."""
        return {"name": self.name, "settings": self.settings}


def build_rungs(
    base: Tree,
    *,
    only: Sequence[str] | None = None,
    files: Sequence[str | Path] = (),
    overrides: Mapping[str, Any] | None = None,
    cells: Mapping[str, CellClass] | None = None,
) -> list[Rung]:
    """The rungs of a ladder: the default ones of the task, or some of them (`only`), then one for each config file.

    `base` has the task and the data. `overrides` are settings for all rungs; a rung whose model does not have such a
    setting is trained without it, and one that no rung has is an error. A default rung that cannot read such data is
    left out, unless it was asked for.
    """
    task = base["task"]
    models = DEFAULT_RUNGS.get(task, {})
    names = [*BASELINES.get(task, ()), *models]
    for name in only or ():
        if name not in names:
            cure = did_you_mean(name, names) if names else "name config files with --rung"
            raise ConfigError(f"is no rung of {task}", where=f'"{name}"', cure=cure)
    wanted = names if only is None else [name for name in names if name in only]
    drafts: list[tuple[str, Tree | None]] = [
        (name, {"model": models[name]} if name in models else None) for name in wanted
    ]
    drafts += [_read_rung(path, base, taken=[*names, *(name for name, _ in drafts)]) for path in files]
    if not drafts:
        cure = f"choose from {', '.join(names)}" if names else "name config files with --rung"
        raise ConfigError(f"no rung of {task} to measure", where="weft ladder", cure=cure)
    if twice := [name for name, _ in drafts if [one for one, _ in drafts].count(name) > 1]:
        raise ConfigError("two rungs have this name", where=twice[0], cure="rename one of the files")
    errors: dict[str, ConfigError] = {}
    for name, draft in drafts:
        try:
            read_config(merge(draft or {}, base), cells=cells)
        except ConfigError as error:
            if name not in wanted or only is not None:
                raise
            errors[name] = error
    good = {name: draft for name, draft in drafts if draft is not None and name not in errors}
    if errors and not good:
        raise next(iter(errors.values()))
    settings = _change(base, good, dict(flatten(overrides or {})), cells)
    return [Rung(name, settings.get(name), str(errors.get(name, ""))) for name, _ in drafts]


def _read_rung(path: str | Path, base: Tree, *, taken: Sequence[str]) -> tuple[str, Tree]:
    """The name and the settings of a config file, without the task and the data, which are those of the ladder."""
    tree, name = read_tree(path), Path(path).stem
    if tree.get("task", base["task"]) != base["task"]:
        raise ConfigError(f'is for "{tree["task"]}"', where=str(path), cure=f"this is a ladder for {base['task']}")
    if not set(name) <= FREE_NAMES or name.startswith("."):
        raise ConfigError("is no name for a folder", where=str(path), cure="use letters, digits, - and _")
    if name in taken:
        raise ConfigError("is the name of another rung", where=str(path), cure="rename the file")
    if "valid" not in base["data"] and tree.get("seed", base.get("seed", 0)) != base.get("seed", 0):
        cure = "leave the seed out, or give the ladder a validation file"
        raise ConfigError("another seed sets other examples aside for validation", where=str(path), cure=cure)
    return name, {key: value for key, value in tree.items() if key not in ("task", "data", "name")}


def _change(
    base: Tree,
    drafts: Mapping[str, Tree],
    overrides: Mapping[str, Any],
    cells: Mapping[str, CellClass] | None,
) -> dict[str, Tree]:
    """The settings of each rung with those overrides that its model has; raise for one that no model has."""
    found: dict[str, Tree] = {}
    unused: dict[str, ConfigError] = {}
    used: set[str] = set()
    for name, draft in drafts.items():
        tree = merge(draft, base)
        for path, value in overrides.items():
            changed = merge(tree, nest(path, value))
            if path == "train.steps" and "epochs" in changed.get("train", {}):
                changed["train"] = {key: item for key, item in changed["train"].items() if key != "epochs"}
            try:
                tree = read_config(changed, cells=cells)
                used.add(path)
            except ConfigError as error:
                unused.setdefault(path, error)
        found[name] = tree
    for path, refused in unused.items():
        if path not in used:
            raise refused
    return found


def lower_is_better(task: str, metric: str) -> bool:
    return metric in TASKS[task].lower_is_better
