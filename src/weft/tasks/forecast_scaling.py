"""The scaling of series, learned from their training parts: of each target by itself, of other columns over all.

z = (y - mean) / scale          scale: standard deviation of the observed values
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.data import Statistics
from weft.data.series import Series
from weft.errors import DataError
from weft.metrics.forecast import seasonal_error
from weft.tasks.forecast_data import check_numbers

TARGET, ERROR, COVARIATES, STATIC = "target", "error", "covariate", "static"
"""The statistics of the targets of each series, of their naive errors, of other columns and of static numbers."""


class Scaling(NamedTuple):
    """The mean and scale of a series, and the error of its seasonal naive forecast in the training data."""

    mean: float
    scale: float
    error: float


def learn_scalings(records: Sequence[Series]) -> tuple[tuple[str, ...], dict[str, Statistics]]:
    """The names of the series, and all statistics of their training parts."""
    check_numbers(records)
    found = [scaling_of(record) for record in records]
    means, scales, errors = (tuple(column) for column in zip(*found, strict=True))
    targets = {TARGET: Statistics(means, scales), ERROR: Statistics((0.0,) * len(records), errors)}
    return tuple(record.name for record in records), targets | other_statistics(records)


def scaling_of(record: Series) -> Scaling:
    """The scaling of the observed values of a series."""
    values = record.target[record.observed]
    deviation = float(values.std()) if len(values) else 0.0
    mean = float(values.mean()) if len(values) else 0.0
    return Scaling(mean, deviation or max(abs(mean), 1.0), seasonal_error(record.target, record.season))


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
