"""The part of the training data that a run set aside for validation, read again where its files are as they were."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from weft.data import Record
from weft.errors import DataError
from weft.run import Run
from weft.run.data_facts import describe_data
from weft.run.division import set_aside
from weft.run.prepare import DataReader


def read_held_out(run: Run) -> Iterable[Record]:
    """Return the records that were set aside; raise a DataError where they cannot be known."""
    config, train = run.config, run.config.data.train
    if not isinstance(train, str | list):
        raise DataError("the run has no data.valid, and no file as data.train", cure="give a file")
    try:
        trained: Any = run.report["data"]["train"]["files"]
    except (LookupError, TypeError):
        trained = None
    if not trained:
        raise DataError("the run has no data.valid, and its report names no file of data.train", cure="give a file")
    named = " and ".join([train] if isinstance(train, str) else train)
    files = describe_data(config.data, {"train": []})["train"]["files"]
    if files != trained:
        what = "has changed since a part of it was set aside for validation" if files else "is not here"
        raise DataError(f"the run has no data.valid, and data.train = {named} {what}", cure="give a file")
    corpus, survey = DataReader(type(run.task), config.data, skip_bad_lines=True).survey(train)
    return set_aside(config, corpus, survey).aside["valid"]
