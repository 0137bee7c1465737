"""The run folder: training writes it, everything else reads it. `weft.train` and `weft.load` live here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weft.config import read_config
from weft.data.sources import has_surrogate
from weft.errors import RunError
from weft.nn import CellClass
from weft.run.claiming import JOURNAL, claimed
from weft.run.curves import draw_curves
from weft.run.files import check_path
from weft.run.given import EMPTY, Given, take_given
from weft.run.importing import import_cells
from weft.run.loading import load, load_config
from weft.run.only import only_training
from weft.run.preparation import prepare, survey_config
from weft.run.resuming import Resumed, keep_defaults, resume_run
from weft.run.run import Run
from weft.run.save import read_report
from weft.run.saver import Saver
from weft.run.training import train_events
from weft.settings import show
from weft.tasks import Tree
from weft.training import Ended, Journal, choose_device
from weft.training.progress import Watch
from weft.training.ranks import Ranks, join_ranks
from weft.training.tensorboard import TensorBoard

__all__ = ["Run", "import_cells", "load", "load_config", "survey_config", "train", "train_run"]


def train(
    config: str | Path | Mapping[str, Any],
    overrides: Mapping[str, Any] | None = None,
    *,
    out: str | Path | None = None,
    quiet: bool = False,
    skip_bad_lines: bool = False,
    cells: Mapping[str, CellClass] | None = None,
    resume: bool = False,
) -> Run:
    """Train from a config file or table, with overrides such as {"train.rate": 3e-4}; the run folder is `out`.

    In Python data.train, data.valid and data.test may also be the examples themselves: a list of tuples or dicts, a
    pandas or polars frame, a Hugging Face data set.

    `resume` goes on with the run in that folder from its last checkpoint, as if it had never been interrupted; in a
    folder that is empty or missing it begins one. `cells` are classes of your own by the names that the config uses:
    cells={"mine": MyCell} for cell = "mine".
    """
    tree, given = take_given(config, overrides or {})
    run, _ = train_run(
        read_config(tree, cells=cells),
        out=out,
        watch=Watch(quiet=quiet),
        skip_bad_lines=skip_bad_lines,
        cells=cells,
        resume=resume,
        given=given,
    )
    return run


def train_run(
    tree: Tree,
    *,
    out: str | Path | None,
    watch: Watch,
    skip_bad_lines: bool = False,
    cells: Mapping[str, CellClass] | None = None,
    resume: bool = False,
    fresh: bool = False,
    given: Given = EMPTY,
) -> tuple[Run, Ended]:
    """Train, write the journal, let `watch` show what happens; the run, and how training ended.

    `fresh` reads and tokenises large files anew, whatever earlier runs have kept of them. `given` is data given in
    Python, by the name that stands for it in the tree.

    Started by torchrun, several processes train together: the first writes and shows, the others follow.
    """
    if out is not None:
        check_path(out, "out")
        if has_surrogate(str(out)):
            raise RunError("is not UTF-8", where=show(str(out)), cure="choose another --out")
    with only_training(), join_ranks(choose_device(tree.get("train", {}).get("device", "auto"))) as ranks:
        if ranks.first:
            return _lead(
                tree,
                ranks,
                out=out,
                watch=watch,
                skip_bad_lines=skip_bad_lines,
                cells=cells,
                resume=resume,
                fresh=fresh,
                given=given,
            )
        return _follow(tree, ranks, skip_bad_lines=skip_bad_lines, cells=cells, given=given)


def _lead(
    tree: Tree,
    ranks: Ranks,
    *,
    out: str | Path | None,
    watch: Watch,
    skip_bad_lines: bool,
    cells: Mapping[str, CellClass] | None,
    resume: bool,
    fresh: bool,
    given: Given,
) -> tuple[Run, Ended]:
    with claimed(out, tree["task"], resume=resume) as folder:
        tree = keep_defaults(tree, folder)
        with watch.waiting("reading the data") as tell:
            prepared = prepare(tree, skip_bad_lines=skip_bad_lines, cells=cells, fresh=fresh, tell=tell, given=given)
        resumed = resume_run(folder, prepared, cells=cells) if resume else Resumed()
        ranks.hear([str(folder), str(resumed.checkpoint or ""), resumed.total, resumed.finished])
        if resumed.finished:
            report = read_report(folder, whole=True)
            ended = Ended(report["steps"], f"was finished before ({report['ended']})", finished=True)
            return load(folder, cells=cells), ended
        journal = Journal(folder / JOURNAL, length=resumed.journal, seconds=resumed.seconds)
        # Whatever ends the training, all that was handed over to the saver is on the disk when the block is left.
        with journal, TensorBoard(folder) as board, watch, Saver(folder) as saver:
            for event in train_events(prepared, saver, resumed, ranks=ranks):
                for listener in (journal.write, board.write, watch.show):
                    with saver.noting():
                        listener(event)
        assert isinstance(event, Ended)
        if not event.interrupted:
            draw_curves(folder, watch.note)
        ranks.hear("the folder is complete")
    return load(folder, cells=cells), event


def _follow(
    tree: Tree, ranks: Ranks, *, skip_bad_lines: bool, cells: Mapping[str, CellClass] | None, given: Given
) -> tuple[Run, Ended]:
    """What the first rank does, without writing or showing anything."""
    place, checkpoint, total, finished = ranks.hear()
    folder = Path(place)
    if not finished:
        tree = keep_defaults(tree, folder)
        prepared = prepare(tree, skip_bad_lines=skip_bad_lines, cells=cells, given=given)
        resumed = Resumed(Path(checkpoint), total) if checkpoint else Resumed()
        for event in train_events(prepared, Saver(folder), resumed, ranks=ranks):
            ended = event
        assert isinstance(ended, Ended)
        ranks.hear()
        return load(folder, cells=cells), ended
    run = load(folder, cells=cells)
    return run, Ended(run.report["steps"], "was finished before", finished=True)
