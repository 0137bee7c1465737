"""The division of data: a part of the training data is set aside where there is no file for it, and parts follow each
other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from weft.catalog import TASKS
from weft.config import Config
from weft.data import Corpus, Record, Survey, hold_out
from weft.errors import DataError, counted
from weft.tasks import Division, Task

VALID_SHARE, MAX_VALID_EXAMPLES = 0.1, 2000
"""The share of the training data that is set aside for validation where there is no file for it."""

FEW_EXAMPLES, FEW_SHARE = 40, 0.05
"""Of fewer examples than this a smaller share is set aside: training misses each of them more."""

LATER_PARTS: Final = ("valid", "test")
"""The parts of the data beside the training data, in their order."""


def set_aside(config: Config, corpus: Corpus, survey: Survey) -> Division:
    """Divide the training data: the part to learn from, and a part for validation if there is no file for it."""
    divided = TASKS[config.task].divide(corpus, config.data)
    if divided is not None:
        return divided
    if config.data.valid is not None:
        return Division(corpus, {}, [])
    if config.data.running:
        return _set_aside_end(corpus, survey)
    share = FEW_SHARE if survey.examples < FEW_EXAMPLES else VALID_SHARE
    aside = hold_out(survey.keys, strata=survey.strata, fraction=share, most=MAX_VALID_EXAMPLES, seed=config.seed)
    note = (
        f"no data.valid: set aside {int(aside.sum()):,} of {counted(survey.examples, 'training example')}, "
        f"grouped so that no text is on both sides{', by label' * (survey.strata is not None)}"
    )
    return Division(corpus.where(~aside), {"valid": corpus.where(aside)}, [note])


def _set_aside_end(corpus: Corpus, survey: Survey) -> Division:
    """Set aside the last blocks of running text: a block from the middle would be too easy to predict."""
    if survey.examples < 2:
        what = "nothing to hold out from: the text is a single block"
        raise DataError(what, where="data.train", cure="give a file as data.valid")
    count = min(max(1, round(VALID_SHARE * survey.examples)), MAX_VALID_EXAMPLES)
    aside = np.arange(survey.examples) >= survey.examples - count
    note = f"no data.valid: set aside the end of the text, {count / survey.examples:.0%} of it"
    return Division(corpus.where(~aside), {"valid": corpus.where(aside)}, [note])


def later_parts(
    task: Task | type[Task],
    corpus: Iterable[Record],
    aside: Mapping[str, Iterable[Record]],
    given: Mapping[str, Iterable[Record]],
) -> dict[str, Iterable[Record]]:
    """The records for validation and test: those set aside, or those of a file, which may continue what is before."""
    found: dict[str, Iterable[Record]] = {}
    for part in LATER_PARTS:
        if part in aside:
            found[part] = corpus = aside[part]
        elif part in given:
            found[part] = corpus = task.follow(corpus, given[part])
    return found
