"""Where the system refuses a file operation, a training ends with one line, or goes on if it can; nothing is lost."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable
from itertools import count

import pytest
from tests.faults.crash.shim import Action, Kind, Orders
from tests.faults.crash.trial import Outcome, Trials, Tried
from tests.faults.forked import Ended

SAMPLE = 3
ERRORS = {
    "EIO": Orders(Action.FAIL, 0, errno.EIO, Kind.ALL),
    "ENOSPC": Orders(Action.FAIL_FROM_HERE, 0, errno.ENOSPC, Kind.CREATE | Kind.WRITE | Kind.SYNC | Kind.NAME),
    "EACCES": Orders(Action.FAIL_FROM_HERE, 0, errno.EACCES, Kind.CREATE | Kind.OPEN | Kind.NAME | Kind.REMOVE),
    "EMFILE": Orders(Action.FAIL, 0, errno.EMFILE, Kind.CREATE | Kind.OPEN),
}
"""A disk that fails once, one that is full from then on, a folder made read-only, a process with too many files."""


def told(ended: Ended) -> bool:
    """Whether a process that could not go on said why in one line, as weft says it."""
    lines = [line for line in ended.err.splitlines() if line.startswith(("error", "fault"))]
    quiet = "Traceback" not in ended.err and "mistake in weft" not in ended.err
    return ended.code in (1, 2) and quiet and len(lines) == 1 and lines[0].startswith("error ")


def refuse(trials: Trials, orders: Orders, numbers: Iterable[int], expected: Outcome) -> Tried:
    """Refuse each of these operations in a training of its own, up to where a training ends before it gets there."""
    tried = Tried()
    for number in numbers:
        run = trials.fresh()
        ended = trials.train(run, orders._replace(at=number))
        refused = [done for done in trials.operations() if done.error == orders.error and done.number >= number]
        if not refused:
            break
        recovered = trials.recover(run)
        tried.count(
            f"{refused[0]}",
            (ended.code == 0 or told(ended), f"exit code {ended.code}: {ended.err}"),
            (recovered.outcome == expected, f"resumed to another end: {recovered.ended.err}"),
        )
        trials.remove(run)
    return tried


@pytest.mark.parametrize("name", ERRORS)
def test_some_operations_refused(name: str, trials: Trials, unbroken: Outcome) -> None:
    run = trials.fresh()
    trials.train(run, Orders(kinds=ERRORS[name].kinds))
    refuse(trials, ERRORS[name], trials.spread(SAMPLE, first=2), unbroken).check(least=SAMPLE - 1)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", ERRORS)
def test_every_operation_refused(
    name: str, trials: Trials, unbroken: Outcome, record_property: Callable[[str, object], None]
) -> None:
    tried = refuse(trials, ERRORS[name], count(1), unbroken)
    record_property("faults", f"file operations refused with {name}: {tried}")
    tried.check(least=50)
