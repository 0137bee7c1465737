"""The run folder: training writes it, everything else reads it. `weft.train` and `weft.load` live here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weft.config import read_config
from weft.nn import CellClass
from weft.run.folder import claimed
from weft.run.importing import import_cells
from weft.run.loading import load, load_config
from weft.run.preparation import prepare, survey_config
from weft.run.run import Run
from weft.run.training import train_events
from weft.tasks import Tree
from weft.training import Ended, Journal
from weft.training.progress import Watch

__all__ = ["Run", "import_cells", "load", "load_config", "survey_config", "train", "train_run"]


def train(
    config: str | Path | Mapping[str, Any],
    overrides: Mapping[str, Any] | None = None,
    *,
    out: str | Path | None = None,
    quiet: bool = False,
    skip_bad_lines: bool = False,
    cells: Mapping[str, CellClass] | None = None,
) -> Run:
    """Train from a config file or table, with overrides such as {"train.rate": 3e-4}; the run folder is `out`.

    `cells` are classes of your own by the names that the config uses: cells={"mine": MyCell} for cell = "mine".
    """
    tree, watch = read_config(config, overrides, cells=cells), Watch(quiet=quiet)
    run, _ = train_run(tree, out=out, watch=watch, skip_bad_lines=skip_bad_lines, cells=cells)
    return run


def train_run(
    tree: Tree,
    *,
    out: str | Path | None,
    watch: Watch,
    skip_bad_lines: bool = False,
    cells: Mapping[str, CellClass] | None = None,
) -> tuple[Run, Ended]:
    """Train, write the journal, let `watch` show what happens; the run, and how training ended."""
    with claimed(out, tree["task"]) as folder:
        with watch.waiting("reading the data"):
            prepared = prepare(tree, skip_bad_lines=skip_bad_lines, cells=cells)
        with Journal(folder / "metrics.jsonl") as journal, watch:
            for event in train_events(prepared, folder):
                journal.write(event)
                watch.show(event)
    assert isinstance(event, Ended)
    return load(folder, cells=cells), event
