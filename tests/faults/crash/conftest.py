"""Trainings that can be broken at any file operation, and the result of one that was not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.faults.crash.shim import build
from tests.faults.crash.trial import Outcome, Trials, outcome
from tests.faults.forked import Forked


@pytest.fixture(scope="session")
def trials(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trials]:
    base = tmp_path_factory.mktemp("crash").resolve()
    with Forked(preload=build(base)) as forked:
        yield Trials(forked, base)


@pytest.fixture(scope="session")
def unbroken(trials: Trials) -> Outcome:
    """What comes of a training that nothing disturbs."""
    found = []
    for _ in range(2):
        run = trials.fresh()
        ended = trials.train(run)
        assert ended.code == 0, ended.err
        found.append(outcome(run))
    assert found[0] == found[1], "without a break the run is not the same every time"
    return found[0]
