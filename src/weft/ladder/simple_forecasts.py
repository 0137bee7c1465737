"""The rungs of a forecast that are no models: the last value, the last season, and a line, continued."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from weft.compare import Tally
from weft.data import Record
from weft.data.series import Series
from weft.ladder.baseline import Guessed
from weft.metrics.forecast import forecast_metrics, point_sums, simple_baselines
from weft.tasks import Forecast
from weft.tasks.forecast_data import ForecastData
from weft.text import TextConfig


def forecast_simply(name: str, train: Iterable[Record], records: Sequence[Record], data: ForecastData) -> Guessed:
    """Forecast the windows of the records by a simple rule: `naive`, `seasonal_naive` or `drift`."""
    began = time.perf_counter()
    task = Forecast(Forecast.learn(_series(train), TextConfig()), data)
    learned = time.perf_counter()
    windows = list(task.gather(_series(records), data))
    every = np.stack([window.target for window in windows])
    history, gold = every[:, : task.history], every[:, task.history :]
    errors = task.naive_errors(windows)
    found = time.perf_counter()
    point = simple_baselines(history, season=task.season, horizon=task.horizon)[name]
    took = time.perf_counter() - found
    rows = range(len(windows))
    sums = np.stack([point_sums(gold[[row]], point[[row]], errors[[row]]) for row in rows])
    tally = Tally(sums, task.stretches(windows), forecast_metrics, rows_overlap=task.rows_overlap)
    return Guessed(tally, 1, learned - began, took)


def _series(records: Iterable[Any]) -> list[Series]:
    return [record for record in records if isinstance(record, Series)]
