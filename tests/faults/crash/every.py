"""Every way to break the small training, and a share of the trials of each for one process."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.faults.crash.disk import states
from tests.faults.crash.shim import build
from tests.faults.crash.test_errors import ERRORS, refuse
from tests.faults.crash.test_kills import kill, kill_halfway
from tests.faults.crash.test_power_loss import check
from tests.faults.crash.test_token_cache import BREAKS, break_cache
from tests.faults.crash.trial import Outcome, Trials, Tried, train_unbroken
from tests.faults.forked import Forked

LAST = 1 << 20
"""Above the number of any operation: trials end where a training ends before it gets there."""

Try = Callable[[Trials, Outcome, range], Tried]


def _lose_power(trials: Trials, expected: Outcome, numbers: range) -> Tried:
    run = trials.fresh()
    trials.train(run)
    operations = trials.operations()
    found = list(states(run, operations))
    return check(trials, found[numbers.start - 1 :: numbers.step], operations, expected)


def _kill(trials: Trials, expected: Outcome, numbers: range, *, resumed: bool) -> Tried:
    halfway = kill_halfway(trials) if resumed else None
    return kill(trials, partial(trials.copy, halfway) if halfway else trials.fresh, numbers, expected)


KINDS: dict[str, Try] = {
    "killed, from nothing": partial(_kill, resumed=False),
    "killed, resumed": partial(_kill, resumed=True),
    "power lost": _lose_power,
    **{f"refused with {name}": lambda t, e, n, o=orders: refuse(t, o, n, e) for name, orders in ERRORS.items()},
    **{f"token cache, {name}": lambda t, e, n, o=orders: break_cache(t, o, n, e) for name, orders in BREAKS.items()},
}


def work(first: int, step: int) -> dict[str, Tried]:
    """Make every `step`-th trial of each kind, from the `first` on."""
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder).resolve()
        os.environ["WEFT_CACHE"] = str(base / "cache")
        with Forked(preload=build(base)) as forked:
            trials = Trials(forked, base)
            expected = train_unbroken(trials)
            return {name: act(trials, expected, range(first, LAST, step)) for name, act in KINDS.items()}
