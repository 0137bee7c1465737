"""A sweep: one run folder for each trial, a journal of all trials beside them, weak trials ended early.

    DIR/  sweep.json (what is searched)   trials.log (Optuna's journal, JSON lines)   trials/N/ (run folders)

Trials do not use the test data: the best of many trials by it would be chosen by luck.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from weft.config import read_config
from weft.errors import ConfigError, DataError, Fault, WeftError
from weft.extras import EXTRAS
from weft.nn import CellClass
from weft.run import train_run
from weft.run.folder.study import claim_study
from weft.sweep.space import Choice, Dimension, Value
from weft.sweep.trial import Goal, Outcome, Trial, TrialWatch, ended_trials, rank, read_trial
from weft.tasks import Tree

if TYPE_CHECKING:
    import optuna

ABOUT, JOURNAL, TRIALS = "sweep.json", "trials.log", "trials"
MIN_VALIDATIONS = 2
"""Validations of every trial before it may be ended early."""


def sweep(
    tree: Tree,
    space: Sequence[Dimension],
    *,
    trials: int,
    out: Path,
    resume: bool = False,
    say: Callable[[Trial], None] = lambda trial: None,
    note: Callable[[str], None] = lambda text: None,
    skip_bad_lines: bool = False,
    cells: Mapping[str, CellClass] | None = None,
) -> Outcome:
    """Train `trials` runs of the configuration, each with other values from the space; call `say` when a trial ends.

    `note` is called if a crash has left half a line in the journal. With `resume` the trials in the folder count, and
    those that were interrupted are run again.
    """
    if find_spec("optuna") is None:
        raise WeftError("needs optuna", where="weft sweep", cure=EXTRAS["tune"].install)
    import optuna

    from weft.sweep.journal import explaining_errors, open_journal

    if not space:
        raise ConfigError("there is nothing to search", cure="give a range or a list: train.rate=1e-4..1e-2")
    for dimension in space:
        for value in dimension.ends:
            read_config(tree, {dimension.path: value}, cells=cells)
    tree = tree | {"data": {name: value for name, value in tree["data"].items() if name != "test"}}
    goal = Goal.of(tree, [dimension.path for dimension in space])
    about = {"settings": tree, "space": [dimension.tree() for dimension in space]}
    claim_study(out, ABOUT, about, what="sweep", parts="settings and ranges", resume=resume)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage, dropped = open_journal(out / JOURNAL)
    if dropped:
        note(dropped)
    with explaining_errors(out / JOURNAL):
        study = _open_study(out, tree, goal, storage)
        total = _queue_trials(study, space, trials)
        rank(study, goal)
    while len(ended_trials(study)) < total:
        with explaining_errors(out / JOURNAL):
            trial = study.ask()
            values = {dimension.path: dimension.suggest(trial) for dimension in space}
        folder = out / TRIALS / str(trial.number)
        signal = _run(study, trial, tree, values, folder, goal, skip_bad_lines=skip_bad_lines, cells=cells)
        ended = study.trials[trial.number]
        if ended.state.is_finished():
            say(read_trial(ended, goal))
        if signal and len(ended_trials(study)) < total:
            return Outcome(rank(study, goal), signal)
    return Outcome(rank(study, goal))


def _open_study(out: Path, tree: Tree, goal: Goal, storage: optuna.storages.JournalStorage) -> optuna.Study:
    import optuna

    study = optuna.create_study(
        storage=storage,
        study_name="sweep",
        direction="minimize" if goal.lower_is_better else "maximize",
        pruner=optuna.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=MIN_VALIDATIONS),
        load_if_exists=True,
    )
    # A resumed sweep must not draw the same settings again.
    study.sampler = optuna.samplers.TPESampler(seed=(tree.get("seed", 0) + len(study.trials)) % 2**32)
    return study


def _queue_trials(study: optuna.Study, space: Sequence[Dimension], trials: int) -> int:
    """Queue interrupted trials again and, if there are no more than `trials`, all combinations; return how many run."""
    from optuna.trial import TrialState

    for trial in study.get_trials(states=(TrialState.RUNNING,)):
        # Its values may not all be drawn, and a crash may come between these two calls.
        if drawn := {**trial.system_attrs.get("fixed_params", {}), **trial.params}:
            study.enqueue_trial(drawn)
        study.tell(trial.number, state=TrialState.FAIL)
    choices = [dimension for dimension in space if isinstance(dimension, Choice)]
    if len(choices) < len(space) or (size := math.prod(len(choice.values) for choice in choices)) > trials:
        return trials
    for values in product(*(choice.values for choice in choices)):
        chosen = {choice.path: value for choice, value in zip(choices, values, strict=True)}
        study.enqueue_trial(chosen, skip_if_exists=True)
    return size


def _run(
    study: optuna.Study,
    trial: optuna.Trial,
    tree: Tree,
    values: Mapping[str, Value],
    folder: Path,
    goal: Goal,
    *,
    skip_bad_lines: bool,
    cells: Mapping[str, CellClass] | None,
) -> int:
    """Train one trial and report its result to the study; return the signal that stopped it, or 0."""
    from optuna import TrialPruned
    from optuna.trial import TrialState

    try:
        settings = read_config(tree, values, cells=cells)
        watch = TrialWatch(trial, goal)
        run, ended = train_run(settings, out=folder, watch=watch, skip_bad_lines=skip_bad_lines, cells=cells)
        if ended.interrupted:
            return ended.signal  # the trial stays open, so that --resume runs it again
        scores, goal = run.report["valid"], watch.goal
        found = goal.score(scores)
        if not math.isfinite(found):
            raise Fault(f"{goal.name(scores)} is {found}")
        trial.set_user_attr("metric", goal.name(scores))
        study.tell(trial, found)
        return ended.signal
    except TrialPruned:
        study.tell(trial, state=TrialState.PRUNED)
    except DataError:
        raise  # the files are the same for all trials; this one stays open too
    except Exception as error:
        reason = str(error).encode("utf-8", "backslashreplace").decode("utf-8")
        trial.set_user_attr("error", reason or type(error).__name__)
        study.tell(trial, state=TrialState.FAIL)
    return 0
