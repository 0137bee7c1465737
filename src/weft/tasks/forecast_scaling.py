"""The scaling of series, learned from their training parts: of each target by itself, of other columns over all.

z = (y - mean) / scale          scale: standard deviation of the observed values
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.data import Statistics
from weft.data.series import Series
from weft.data.steps import MAX_NUMBER, deviation_of
from weft.errors import DataError
from weft.metrics.forecast import seasonal_error
from weft.tasks.forecast_data import check_numbers, is_constant, teaches

TARGET, ERROR, UNTIL, FLOOR = "target", "error", "until", "floor"
"""The statistics of each series: of its targets, its naive error, its last time stamp in training, its least value."""

COVARIATES, STATIC = "covariate", "static"
"""The statistics of other columns and of static numbers."""

MIN_ZEROS: Final = 0.01
"""The share of zeros from which on a series without a negative value never has one: counts, sales, rain."""

NO_ERROR: Final = MAX_NUMBER
"""The naive error of a constant series, which has none: nothing can be measured in units of it."""

NO_FLOOR: Final = -MAX_NUMBER
NO_TIME: Final = -MAX_NUMBER
"""The last time stamp of a series without any: nothing is known to be part of the training data."""


class Scaling(NamedTuple):
    """The mean and scale of a series, the error of its seasonal naive forecast, its last time stamp and its least
    possible value, all from the training data. A constant series has a scale by its size, and no error."""

    mean: float
    scale: float
    error: float
    until: float
    floor: float


def learn_scalings(records: Sequence[Series]) -> tuple[tuple[str, ...], dict[str, Statistics]]:
    """The names of the series that have values to learn from, and all statistics of their training parts."""
    check_numbers(records, "the training part")
    records = [record for record in records if teaches(record)]
    found = [scaling_of(record) for record in records]
    means, scales, errors, ends, floors = (tuple(column) for column in zip(*found, strict=True))
    zeros, ones = (0.0,) * len(records), (1.0,) * len(records)
    targets = {
        TARGET: Statistics(means, scales),
        ERROR: Statistics(zeros, errors),
        UNTIL: Statistics(ends, ones),
        FLOOR: Statistics(floors, ones),
    }
    return tuple(record.name for record in records), targets | other_statistics(records)


def scaling_of(record: Series) -> Scaling:
    """The scaling of the observed values of a series."""
    values = record.target[record.observed]
    mean = float(values.mean()) if len(values) else 0.0
    until = float(record.seconds(record.end - 1, 1)[0]) if record.frequency else NO_TIME
    deviation = 0.0 if is_constant(record) else deviation_of(values)
    error = NO_ERROR if is_constant(record) else seasonal_error(record.target, record.season)
    return Scaling(mean, deviation or max(abs(mean), 1.0), error, until, floor_of(values))


def floor_of(values: NDArray[np.float64]) -> float:
    """Zero for values of which none is negative and some are zero, else no limit."""
    return 0.0 if len(values) and values.min() == 0 and (values == 0).mean() >= MIN_ZEROS else NO_FLOOR


def other_statistics(records: Sequence[Series]) -> dict[str, Statistics]:
    """The statistics of the columns beside the target, and of static numbers, over all series."""
    columns = {
        COVARIATES: np.concatenate([record.steps.array[:, 1:] for record in records]),
        STATIC: np.array([record.static for record in records]),
    }
    return {name: observed_statistics(numbers, name) for name, numbers in columns.items() if numbers.shape[1]}


def observed_statistics(numbers: NDArray[np.float64], name: str) -> Statistics:
    """The statistics of each column (N, C) over its observed numbers."""
    parts = [column[~np.isnan(column)] for column in numbers.T]
    if not all(map(len, parts)):
        what = f"a column of {name} numbers is empty in the training part"
        raise DataError(what, where="data.train", cure="leave it out of data.past, data.known or data.static")
    found = [Statistics.of([part[:, None]]) for part in parts]
    return Statistics(tuple(one.mean[0] for one in found), tuple(one.scale[0] for one in found))
