"""Killed at any file operation, a run loads as far as it was saved, and resumed it ends as if nothing had happened."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path

import pytest
from tests.faults.crash.shim import Action, Orders
from tests.faults.crash.trial import Outcome, Trials, Tried, promised, saved

SAMPLE = 6
Start = Callable[[], Path]


@pytest.fixture(scope="session")
def halfway(trials: Trials, unbroken: Outcome) -> Path:
    return kill_halfway(trials)


def kill_halfway(trials: Trials) -> Path:
    """A run that was killed after its second checkpoint, with a model."""
    run = trials.fresh()
    trials.train(run)
    middle = next(done.number for done in trials.operations() if done.name == "mkdir" and done.path.endswith(".9.tmp"))
    trials.remove(run)
    run = trials.fresh()
    assert trials.train(run, Orders(Action.KILL, middle)).code == -signal.SIGKILL
    return run


@pytest.fixture(params=["from nothing", "resumed"])
def start(request: pytest.FixtureRequest, trials: Trials, halfway: Path) -> Start:
    """Folders to train in: empty ones, or copies of a run that was killed before."""
    return trials.fresh if request.param == "from nothing" else lambda: trials.copy(halfway)


def kill(trials: Trials, start: Start, numbers: Iterable[int], expected: Outcome) -> Tried:
    """Kill a training at each of these operations, in the middle of it if it is a write.

    Numbers end where a training ends before it gets there.
    """
    tried = Tried()
    for number in numbers:
        run = start()
        model = (run / "manifest.json").exists()
        ended = trials.train(run, Orders(Action.KILL_HALFWAY if number % 2 else Action.KILL, number))
        if ended.code == 0:
            break
        operations = trials.operations()
        recovered = trials.recover(run)
        tried.count(
            f"killed at operation {number}, after {operations[-1] if operations else 'nothing'}",
            (ended.code == -signal.SIGKILL, ended.err),
            (recovered.outcome == expected, f"resumed to another end: {recovered.ended.err}"),
            (recovered.after >= promised(operations), "a checkpoint was lost"),
            (not recovered.said or not (model or saved(operations, run)), recovered.said),
        )
        trials.remove(run)
    return tried


def test_killed_at_some_operations(trials: Trials, start: Start, unbroken: Outcome) -> None:
    run = start()
    trials.train(run)
    last = max(done.number for done in trials.operations())
    trials.remove(run)
    step = max(1, last // SAMPLE) | 1  # odd, so that half of the kills come in the middle of a write
    tried = kill(trials, start, range(1, last, step), unbroken)
    tried.check(least=SAMPLE - 2)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_killed_at_every_operation(
    trials: Trials, start: Start, unbroken: Outcome, record_property: Callable[[str, object], None]
) -> None:
    tried = kill(trials, start, count(1), unbroken)
    record_property("faults", f"killed at each file operation: {tried}")
    tried.check(least=50)
