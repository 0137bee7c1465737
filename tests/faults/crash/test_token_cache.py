"""Killed or refused at any file operation in the cache of tokens, a training loses nothing, nor does the next one."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable
from itertools import count

import pytest
from tests.faults.crash.shim import Action, Kind, Orders
from tests.faults.crash.test_errors import told
from tests.faults.crash.trial import Outcome, Trials, Tried, outcome

SAMPLE = 2
BREAKS = {
    "killed": Orders(Action.KILL_HALFWAY),
    "EIO": Orders(Action.FAIL, 0, errno.EIO, Kind.ALL),
    "ENOSPC": Orders(Action.FAIL_FROM_HERE, 0, errno.ENOSPC, Kind.CREATE | Kind.WRITE | Kind.SYNC | Kind.NAME),
}


def break_cache(trials: Trials, orders: Orders, numbers: Iterable[int], expected: Outcome) -> Tried:
    """Break a training at each of these operations in its cache, and train again with what that left there."""
    tried = Tried()
    for number in numbers:
        run, other = trials.fresh(), trials.fresh()
        cache = trials.cache(run)
        ended = trials.train(run, orders._replace(at=number), root=cache / "tokens", cache=cache)
        operations = trials.operations()
        broken = orders.action == Action.KILL_HALFWAY or any(done.error == orders.error for done in operations)
        if ended.code == 0 and (orders.action == Action.KILL_HALFWAY or not broken):
            break
        again = trials.train(other, root=cache / "tokens", cache=cache)
        right = ended.code in (-9, 0) or told(ended)
        tried.count(
            f"operation {number} after {operations[-1] if operations else 'nothing'}",
            (right, f"exit code {ended.code}: {ended.err}"),
            (ended.code != 0 or outcome(run) == expected, "another result"),
            (again.code == 0 and outcome(other) == expected, f"trained again to another end: {again.err}"),
        )
        trials.remove(run)
        trials.remove(other)
    return tried


@pytest.mark.parametrize("name", BREAKS)
def test_some_operations_in_the_cache(name: str, trials: Trials, unbroken: Outcome) -> None:
    run = trials.fresh()
    cache = trials.cache(run)
    trials.train(run, Orders(kinds=BREAKS[name].kinds), root=cache / "tokens", cache=cache)
    break_cache(trials, BREAKS[name], trials.spread(SAMPLE, first=3), unbroken).check(least=SAMPLE)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", BREAKS)
def test_every_operation_in_the_cache(
    name: str, trials: Trials, unbroken: Outcome, record_property: Callable[[str, object], None]
) -> None:
    tried = break_cache(trials, BREAKS[name], count(1), unbroken)
    record_property("faults", f"file operations in the cache of tokens, {name}: {tried}")
    tried.check(least=20)
