"""Trains the rungs of a ladder one after the other, each in a run folder of its own.

    DIR/  plan.json (the rungs)   budget.json (updates that fit into the time)   rungs/NAME/ (run folders)
          ladder.json, ladder.html, ladder.svg (the result)

With `resume`, finished rungs are kept and an interrupted one goes on from its checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from weft.config import merge, validate
from weft.errors import ConfigError, DataError, Fault, WeftError
from weft.ladder.rungs import Rung
from weft.nn import CellClass
from weft.run import train_run
from weft.run.dry_run import dry_run
from weft.run.folder.files import read_table, write_json
from weft.run.folder.study import claim_study
from weft.run.prepare import prepare, read_divided
from weft.tasks import Tree
from weft.training.progress import Watch

PLAN, BUDGET, RUNGS = "plan.json", "budget.json", "rungs"

ROOM: Final = 0.9
"""The share of the time that is planned for updates and validations; a trial of ten updates is no exact measure."""


@dataclass(frozen=True)
class ClimbOutcome:
    """The folders of the rungs that were trained, the errors of those that failed, and the signal that stopped all."""

    folders: dict[str, Path]
    failed: dict[str, str] = field(default_factory=dict)
    signal: int = 0


def climb(
    rungs: Sequence[Rung],
    *,
    out: Path,
    seconds: float | None = None,
    resume: bool = False,
    watch: Callable[[], Watch] = lambda: Watch(quiet=True),
    say: Callable[[str], None] = lambda text: None,
    skip_bad_lines: bool = False,
    cells: Mapping[str, CellClass] | None = None,
) -> ClimbOutcome:
    """Read all data, then train every rung; one that fails is left out, unless the data cannot be read.

    With `seconds` each rung trains at most that long: where all its updates would take longer, it makes as many as fit,
    so that the schedule of the learning rate ends with them.
    """
    trained = [rung for rung in rungs if rung.settings is not None]
    check_data(trained, skip_bad_lines=skip_bad_lines, cells=cells)
    plan = {"seconds": seconds, "rungs": [rung.tree() for rung in rungs]}
    claim_study(out, PLAN, plan, what="ladder", parts="rungs, settings and budget", resume=resume)
    found = ClimbOutcome({})
    for rung in rungs:
        if rung.error:
            say(f"{rung.name} is left out: {rung.error}")
            found.failed[rung.name] = rung.error
    for number, rung in enumerate(trained, 1):
        folder = out / RUNGS / rung.name
        say(f"training {number} of {len(trained)}: {rung.name}")
        try:
            settings = rung.settings or {}
            if seconds is not None:
                settings = fit_into(out, rung, seconds, skip_bad_lines=skip_bad_lines, cells=cells)
            _, ended = train_run(
                settings, out=folder, watch=watch(), skip_bad_lines=skip_bad_lines, cells=cells, resume=folder.exists()
            )
        except DataError:
            raise  # the files are the same for all rungs
        except (ConfigError, Fault) as error:
            say(f"{rung.name} is left out: {error}")
            found.failed[rung.name] = str(error)
            continue
        if ended.interrupted:
            return ClimbOutcome(found.folders, found.failed, ended.signal)
        found.folders[rung.name] = folder
    if trained and not found.folders:
        name, why = next(iter(found.failed.items()))
        raise WeftError(f"every rung failed, {name} with: {why}", where=str(out), cure="fix that first")
    return found


def check_data(
    rungs: Sequence[Rung], *, skip_bad_lines: bool = False, cells: Mapping[str, CellClass] | None = None
) -> None:
    """Read the files for training, validation and test once, so that a mistake in them is found before any training.

    They are the same for all rungs. A rung whose own settings do not suit them is left out later, with its reason.
    """
    for rung in rungs:
        try:
            read_divided(rung.settings or {}, skip_bad_lines=skip_bad_lines, cells=cells)
        except ConfigError:
            continue
        return


def fit_into(
    out: Path,
    rung: Rung,
    seconds: float,
    *,
    skip_bad_lines: bool,
    cells: Mapping[str, CellClass] | None,
) -> Tree:
    """The settings of a rung that is to train for some seconds; a model of counts has no limit.

    The budget is measured once and stored, so that a ladder that is resumed makes as many updates.
    """
    settings = rung.settings or {}
    unused = getattr(validate(settings, cells=cells, keep_unread=True).model, "unused_train", ())
    if "seconds" in unused:
        return settings
    budgets = _budgets(out)
    if rung.name not in budgets:
        found = dry_run(prepare(settings, skip_bad_lines=skip_bad_lines, cells=cells))
        train: Tree = {"seconds": seconds}
        if found.seconds > ROOM * seconds and "steps" not in unused:
            train["steps"] = max(1, int(found.updates * ROOM * seconds / found.seconds))
        budgets[rung.name] = {"train": train}
        write_json(out / BUDGET, budgets)
    budget = budgets[rung.name]
    if "steps" in budget["train"]:
        kept = {name: value for name, value in settings.get("train", {}).items() if name != "epochs"}
        settings = settings | {"train": kept}
    return merge(settings, budget)


def _budgets(out: Path) -> Tree:
    return read_table(out / BUDGET) if (out / BUDGET).exists() else {}
