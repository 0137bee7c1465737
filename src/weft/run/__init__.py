"""The run folder: training writes it, everything else reads it. `weft.train` and `weft.load` live here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weft.config import read_config
from weft.run.folder import claimed
from weft.run.loading import load, load_config
from weft.run.preparation import prepare, survey_config
from weft.run.run import Run
from weft.run.training import train_events
from weft.tasks import Tree
from weft.training import Ended, Journal
from weft.training.progress import Watch

__all__ = ["Run", "load", "load_config", "survey_config", "train", "train_run"]


def train(
    config: str | Path | Mapping[str, Any],
    overrides: Mapping[str, Any] | None = None,
    *,
    out: str | Path | None = None,
    quiet: bool = False,
    skip_bad_lines: bool = False,
) -> Run:
    """Train from a config file or table, with overrides such as {"train.rate": 3e-4}; the run folder is `out`."""
    run, _ = train_run(read_config(config, overrides), out=out, watch=Watch(quiet=quiet), skip_bad_lines=skip_bad_lines)
    return run


def train_run(tree: Tree, *, out: str | Path | None, watch: Watch, skip_bad_lines: bool = False) -> tuple[Run, Ended]:
    """Train, write the journal, let `watch` show what happens; the run, and how training ended."""
    with claimed(out, tree["task"]) as folder:
        with watch.waiting("reading the data"):
            prepared = prepare(tree, skip_bad_lines=skip_bad_lines)
        with Journal(folder / "metrics.jsonl") as journal, watch:
            for event in train_events(prepared, folder):
                journal.write(event)
                watch.show(event)
    assert isinstance(event, Ended)
    return load(folder), event
