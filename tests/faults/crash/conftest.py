"""Trainings that can be broken at any file operation, and the result of one that was not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.faults.crash.shim import build
from tests.faults.crash.trial import Outcome, Trials, train_unbroken
from tests.faults.forked import Forked


@pytest.fixture(scope="session")
def trials(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trials]:
    base = tmp_path_factory.mktemp("crash").resolve()
    with Forked(preload=build(base)) as forked:
        yield Trials(forked, base)


@pytest.fixture(scope="session")
def unbroken(trials: Trials) -> Outcome:
    return train_unbroken(trials)
