"""The contenders of the forecast benchmark: weft, the LSTM and DeepAR of NeuralForecast, and the last season.

All have the settings that their makers chose. NeuralForecast is trained on all steps before the test part, weft on the
first four fifths of these: the rest is its validation part, which chooses the model and its intervals.
"""

from __future__ import annotations

import logging
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from weft.bench.forecast.case import LEVELS, ForecastCase
from weft.data.series import fill_forward
from weft.evaluate import predict
from weft.metrics.forecast import simple_baselines
from weft.run import Run, train
from weft.tasks import encode

Numbers = NDArray[np.float64]

MODELS: Final = {"lstm": "LSTM", "deepar": "DeepAR"}
"""The classes of NeuralForecast by the name of the contender."""

QUIET: Final = {
    "accelerator": "cpu",
    "devices": 1,
    "enable_checkpointing": False,
    "enable_model_summary": False,
    "enable_progress_bar": False,
    "logger": False,
}
"""Options of NeuralForecast's trainer that change no result."""

INTERVAL: Final = round(100 * (LEVELS[1] - LEVELS[0]))


class Forecasts(NamedTuple):
    """The point forecasts (N, H), and the bounds of the interval (N, H) where a contender has one."""

    point: Numbers
    low: Numbers | None = None
    high: Numbers | None = None


class Updates(NamedTuple):
    """The updates of a training, and how many its maker planned, where that does not depend on the data."""

    made: int
    planned: int | None = None


class Forecasting(Protocol):
    """A contender: it is trained once, then forecasts windows."""

    def fit(self) -> Updates:
        """Train."""

    def forecast(self) -> Forecasts:
        """Forecast all windows of the case."""

    def forecast_one(self) -> object:
        """Forecast the steps after the end of the first series, as a user of the package does."""


class SeasonalNaive:
    """The last season, continued."""

    def __init__(self, case: ForecastCase) -> None:
        self.case = case

    def fit(self) -> Updates:
        return Updates(0)

    def forecast(self) -> Forecasts:
        size = max(self.case.settings["history"], self.case.season)
        places = [(self.case.series[number], origin) for number, origin, _ in self.case.windows]
        history = np.stack([series.window(origin - size, origin).target for series, origin in places])
        found = simple_baselines(history, season=self.case.season, horizon=self.case.horizon)
        return Forecasts(found["seasonal_naive"])

    def forecast_one(self) -> object:
        first = self.case.series[0]
        history = first.window(first.end - self.case.season, first.end).target[None]
        return simple_baselines(history, season=self.case.season, horizon=self.case.horizon)["seasonal_naive"]


class Weft:
    """The default forecaster."""

    def __init__(self, case: ForecastCase) -> None:
        self.case = case
        self.run: Run | None = None

    def fit(self) -> Updates:
        limit = {} if self.case.seconds is None else {"train.seconds": self.case.seconds}
        tree = {"task": "forecast", "data": {**self.case.settings, "train": self.case.train()}}
        settings = {"train.threads": torch.get_num_threads(), "train.device": "cpu", **limit}
        with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
            self.run = train(tree, settings, out=Path(folder) / "run", quiet=True)
            return Updates(self.run.report["steps"])

    def forecast(self) -> Forecasts:
        assert self.run is not None
        task, history = self.run.task, self.case.settings["history"]
        windows = [
            replace(self.case.series[number].window(origin - history, origin + self.case.horizon), origin=history)
            for number, origin, _ in self.case.windows
        ]
        answers: Any = predict(task, self.run.model, encode(task, windows), decode=self.run.config.decode)
        point = np.array([answer.values for answer in answers])
        low, high = (np.array([answer.quantiles[level] for answer in answers]) for level in LEVELS)
        return Forecasts(point, low, high)

    def forecast_one(self) -> object:
        assert self.run is not None
        return self.run.predict([self.case.series[0]])


class NeuralForecasting:
    """A model of NeuralForecast with its defaults. Steps are numbered, and missing values are those before them."""

    def __init__(self, case: ForecastCase, who: str) -> None:
        import neuralforecast  # before the clock runs: it takes seconds

        self.case, self.who, self.package = case, MODELS[who], neuralforecast
        self.trained: Any = None

    def fit(self) -> Updates:
        with _quiet():
            limit = {} if self.case.seconds is None else {"max_time": timedelta(seconds=self.case.seconds)}
            model = getattr(self.package.models, self.who)(h=self.case.horizon, **QUIET, **limit)
            self.trained = self.package.NeuralForecast(models=[model], freq=1)
            self.trained.fit(self._frame([one.origin for one in self.case.series]))
        fitted: Any = self.trained.models[0]
        return Updates(1 + int(fitted.train_trajectories[-1][0]), fitted.max_steps)  # updates are counted from 0

    def forecast(self) -> Forecasts:
        size, stride = self.case.horizon, self.case.stride
        tested = size + (len(self.case.windows) // len(self.case.series) - 1) * stride
        with _quiet():
            frame = self.trained.cross_validation(
                self._frame([one.end for one in self.case.series]),
                test_size=tested,
                n_windows=None,
                step_size=stride,
                use_fitted=True,
            )
        point = f"{self.who}-median" if f"{self.who}-median" in frame.columns else self.who
        names = [point, *(f"{self.who}-{side}-{INTERVAL}" for side in ("lo", "hi"))]
        found = {key: rows.sort_values("ds") for key, rows in frame.groupby(["unique_id", "cutoff"])}
        places = [(self.case.series[number].name, origin - 1) for number, origin, _ in self.case.windows]
        return Forecasts(
            *(np.stack([found[place][name].to_numpy(float) for place in places]) for name in names if name in frame)
        )

    def forecast_one(self) -> object:
        with _quiet():
            return self.trained.predict(self._frame([self.case.series[0].end]))

    def _frame(self, ends: Sequence[int]) -> Any:
        """The first series as a table, each up to its end."""
        import pandas as pd

        parts = [
            {"unique_id": one.name, "ds": np.arange(end), "y": fill_forward(one.target[:end])}
            for one, end in zip(self.case.series, ends, strict=False)
        ]
        return pd.concat([pd.DataFrame(part) for part in parts], ignore_index=True)


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide the log lines and warnings of the trainer, which would stand between the figures."""
    names = ("pytorch_lightning", "lightning.pytorch", "lightning_fabric", "pytorch_lightning.utilities.rank_zero")
    before = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)


def build_contender(who: str, case: ForecastCase) -> Forecasting:
    """The contender of that name for a case."""
    if who == "weft":
        return Weft(case)
    return SeasonalNaive(case) if who == "seasonal_naive" else NeuralForecasting(case, who)
