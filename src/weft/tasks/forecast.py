"""Forecast: the next numbers of one series or many. MASE, MAE, RMSE, sMAPE, quantile loss, coverage of intervals.

    z = (y - mean) / scale of the training part of the series          the network reads and forecasts z

A training example is a window of `history` steps and the `horizon` after them; windows overlap and share their numbers.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from weft import limits
from weft.data import BadLines, Capacity, Columns, Corpus, Examples, Input, Limit, Objects, Ragged, Statistics, pad_numbers
from weft.data import find_objects
from weft.data.ragged import numbers_of
from weft.data.sources import PYTHON, each_path
from weft.data.series import Series, windows_of
from weft.data.series_table import read_series, series_of_objects
from weft.data.series_time import calendar
from weft.decoding import DecodeConfig
from weft.errors import ConfigError, DataError, counted
from weft.metrics.forecast import forecast_metrics, point_sums, quantile_sums, seasonal_error, simple_baselines
from weft.models.forecaster import FORECASTERS, ForecasterConfig, Forecaster, ForecastSizes, SeriesWindow
from weft.settings import OneOf
from weft.tasks.forecast_answer import SeriesForecast, SeriesInputs
from weft.tasks.forecast_data import (
    ForecastData,
    check_numbers,
    continue_series,
    divide_in_time,
    evaluation_origins,
    find_data_settings,
    observed_windows,
)
from weft.tasks.forecast_scores import ForecastScores
from weft.tasks.length import passes
from weft.tasks.sections import Facts, Sections, Tree, written
from weft.tasks.task import Baselines, Batch, Codec, Loss, Rows, Task
from weft.text import TextConfig

TARGET, ERROR, COVARIATES, STATIC = "target", "error", "covariate", "static"
"""The statistics of the targets of each series, of their naive errors, of other columns and of static numbers."""

STEPS, SERIES = "steps", "series"
"""The columns of encoded examples."""

MAX_EVALUATION_WINDOWS: Final = 1000
"""Windows of an evaluation at most, over all series."""

MIN_RESIDUALS: Final = 200
"""Errors of validation windows for each offset of a quantile; where there are fewer windows, steps share them."""

MODEL = OneOf(FORECASTERS)


@dataclass(frozen=True)
class SeriesBatch(Batch):
    """The parts of a `SeriesWindow`, and the future (B, H) of the targets, NaN where they are missing."""

    target: Tensor
    observed: Tensor
    past: Tensor
    known: Tensor
    series: Tensor
    static: Tensor
    future: Tensor

    @property
    def window(self) -> SeriesWindow:
        return SeriesWindow(self.target, self.observed, self.past, self.known, self.series, self.static)


class Forecasts(NamedTuple):
    """point (B, H) and quantiles (B, H, Q) in the units of each series, their naive errors (B,), the sum of the loss."""

    point: NDArray[np.float64]
    quantiles: NDArray[np.float64]
    errors: NDArray[np.float64]
    loss: float


class Scaling(NamedTuple):
    """The mean and scale of a series, and the error of its seasonal naive forecast in the training data."""

    mean: float
    scale: float
    error: float


class Forecast(Task):
    """Numbers in time to a model that forecasts the next ones."""

    name = "forecast"
    summary = "numbers in time to a model that forecasts the next ones"
    metric = "mase"
    metrics: tuple[str, ...] = ("mase", "mae", "rmse", "smape", "quantile_loss", "coverage", "loss")
    lower_is_better = ("mase", "mae", "rmse", "smape", "quantile_loss", "loss")
    sections = Sections(ForecastData, TextConfig, Annotated[ForecasterConfig, MODEL], marks=0)
    data: ForecastData
    files = ("train.csv", "valid.csv", "test.csv")
    pipeline_tag = "time-series-forecasting"
    reads_text = False
    has_baselines = True
    smooths_labels = False
    rolls_origin = True

    def __init__(self, codec: Codec, data: ForecastData) -> None:
        super().__init__(codec, data)
        self.history, self.horizon, self.season = data.lengths
        found = codec.statistics
        both = zip(found[TARGET].mean, found[TARGET].scale, found[ERROR].scale, strict=True)
        self.scalings = dict(zip(codec.labels, (Scaling(*one) for one in both), strict=True))

    @classmethod
    def tokenizer_roles(cls, text: Any, data: Any) -> dict[str, TextConfig]:
        return {}

    @classmethod
    def statistic_sizes(cls, data: ForecastData) -> dict[str, int | None]:
        columns = {COVARIATES: len(data.past) + len(data.known), STATIC: len(data.static)}
        return {TARGET: None, ERROR: None} | {name: size for name, size in columns.items() if size}

    @staticmethod
    def defaults(facts: Facts, tree: Mapping[str, Any]) -> Tree:
        data = written(tree, "data") or {}
        history, horizon = (written(data, name) or 1 for name in ("history", "horizon"))
        steps = facts.characters / max(1, facts.width)
        kind = MODEL.kind_of(written(tree, "model"))
        small = steps < 2000
        size = 32 if small else 64
        models: dict[str, Tree] = {
            "rnn": {"cell": "gru", "embedding": 32, "hidden": size, "dropout": 0.1},
            "transformer": {"width": size, "heads": 4, "layers": 2, "dropout": 0.1},
            "conv": {"embedding": 32, "width": size, "layers": 4, "kernel": 8, "dropout": 0.1},
        }
        rows = 32 if small else 64
        batch = rows * (history + horizon)
        tokens = steps * (history + horizon)
        return {
            "model": models.get(kind, {}),
            "train": {
                "epochs": passes(tree, tokens, batch, epochs=20, between=(10, 20), updates=600),
                "batch_tokens": min(batch, limits.BATCH_TOKENS),
                "rate": 2e-3 if kind == "rnn" else 1e-3,
            },
        }

    @classmethod
    def read(cls, path: str | list[str], data: ForecastData, bad: BadLines) -> Iterator[Series]:
        return read_series(path, data.layout, bad)

    @classmethod
    def read_objects(cls, source: Objects, data: ForecastData, bad: BadLines) -> Iterator[Series]:
        return series_of_objects(source, data.layout, bad)

    @staticmethod
    def columns(data: ForecastData) -> Columns:
        return Columns(Series, "value", prediction="forecast")

    @staticmethod
    def find_settings(records: Iterable[Series], data: ForecastData) -> tuple[Tree, list[str]]:
        return find_data_settings(list(records), data)

    @staticmethod
    def divide(records: Corpus, data: ForecastData) -> tuple[Corpus, Corpus | None, list[str]]:
        parts = list(divide_in_time(records, data))
        train = [part for part, _ in parts]
        held = [part for _, part in parts if part is not None]
        if data.valid is not None:
            return Corpus.of(train), None, []
        aside = sum(part.end - part.origin for part in held)
        every = sum(part.end for part, _ in parts) + aside
        note = f"no data.valid: set aside the end of each series, {aside / max(1, every):.0%} of all steps"
        return Corpus.of(train), Corpus.of(held), [note]

    @staticmethod
    def follow(earlier: Iterable[Series], later: Iterable[Series]) -> Iterable[Series]:
        return list(continue_series(earlier, later))

    @staticmethod
    def learn(records: Iterable[Series], text: TextConfig) -> Codec:
        every = list(records)
        check_numbers(every)
        scalings = [scaling_of(record) for record in every]
        means, scales, errors = (tuple(getattr(one, name) for one in scalings) for name in ("mean", "scale", "error"))
        found = {TARGET: Statistics(means, scales), ERROR: Statistics((0.0,) * len(every), errors)}
        return Codec({}, tuple(record.name for record in every), found | other_statistics(every))

    @classmethod
    def network(cls, config: Any, codec: Codec) -> nn.Module:
        history, horizon, season = config.data.lengths
        known = len(config.data.known) + 2 * len(config.data.calendar or ())
        columns = len(config.data.past), known, len(config.data.static)
        return Forecaster(config.model, ForecastSizes(history, horizon, season, *columns, len(codec.labels)))

    @staticmethod
    def gather(records: Iterable[Series], data: ForecastData, *, origins: int | None = None) -> Iterable[Series]:
        every = list(records)
        most = max(1, MAX_EVALUATION_WINDOWS // max(1, len(every)))
        history, horizon, season = data.lengths
        found = [
            window
            for record in (replace(record, season=season) for record in every)
            for window in windows_of(
                record,
                evaluation_origins(record, data, rolling=origins, most=most),
                history=history,
                horizon=horizon,
            )
        ]
        if not found:
            what = f"no series has a step before the last {horizon}, which are to be forecast"
            raise DataError(what, where=every[0].place or None, cure="give longer series, or lower data.horizon")
        return found

    def limit(self, *, training: bool) -> Limit | None:
        return Limit(limits.LENGTH, "error") if training else None

    @property
    def width(self) -> int:
        """The numbers of each step of an example."""
        return 1 + len(self.data.past) + len(self.data.known) + 2 * len(self.data.calendar or ())

    def encode(self, records: Sequence[Series], limit: Limit | None) -> dict[str, list[Any]]:
        """The whole series in training, with room before it for the first windows; a window each elsewhere."""
        columns: dict[str, list[Any]] = {STEPS: [], SERIES: []}
        for record in records:
            part = record if limit is None else record.window(-self.room, len(record.steps))
            columns[STEPS].append(self.numbers(part).reshape(-1))
            number = self.codec.label_id(record.name) + 1
            static = self.standardise(STATIC, np.array([record.static])) if record.static else np.zeros((1, 0))
            columns[SERIES].append(np.array([number, *static[0]], dtype=np.float32))
        return columns

    @property
    def room(self) -> int:
        """Missing steps before a series, so that its first windows have a shorter history."""
        return max(0, self.history - max(2, min(self.season, self.history)))

    def numbers(self, record: Series) -> NDArray[np.float32]:
        """The steps of a series as a network reads them (T, D); a missing target is NaN, other missing numbers 0."""
        array, scaling = record.steps.array, self.scaling(record)
        parts = [(array[:, :1] - scaling.mean) / scaling.scale]
        if array.shape[1] > 1:
            parts.append(np.nan_to_num(self.standardise(COVARIATES, array[:, 1:])))
        if self.data.calendar:
            parts.append(calendar(record.seconds(0, len(array)), self.data.calendar))
        return np.concatenate(parts, axis=1).astype(np.float32)

    def standardise(self, name: str, columns: NDArray[np.float64]) -> NDArray[np.float32]:
        return self.codec.statistics[name].standardise(columns)

    def scaling(self, record: Series) -> Scaling:
        """The scaling of a series: that of the training data, or its own where it was not part of that."""
        found = self.scalings.get(record.name)
        return scaling_of(replace(record, season=self.season)) if found is None else found

    def windows(self, columns: Mapping[str, Ragged]) -> Mapping[str, Ragged]:
        steps, series = columns[STEPS], columns[SERIES]
        length = (self.history + self.horizon) * self.width
        starts, owners = [], []
        for row in range(len(steps)):
            target = numbers_of(steps[row]).reshape(-1, self.width)[:, 0]
            first = observed_windows(target, self.history, self.horizon)
            starts.append(int(steps.starts([row])[0]) + first * self.width)
            owners.append(np.full(len(first), row))
        begin, owner = np.concatenate(starts), np.concatenate(owners)
        if not len(begin):
            what = f"no window of {self.horizon} steps with a past is in the training part"
            raise DataError(what, where="data.horizon", cure="lower it, or give longer series")
        size = series.lengths[owner]
        return {
            STEPS: steps.view(begin, np.full(len(begin), length)),
            SERIES: series.view(series.starts(owner), size),
        }

    def cost(self, columns: Mapping[str, Any]) -> NDArray[np.int64]:
        lengths: NDArray[np.int64] = columns[STEPS].lengths // self.width
        return lengths

    def collate(
        self, examples: Examples, rows: Rows, *, packed: bool = False, capacity: Capacity | None = None
    ) -> SeriesBatch:
        steps, _ = pad_numbers(examples.columns[STEPS], rows, self.width)
        about = torch.from_numpy(numbers_of(examples.columns[SERIES].join(rows)).reshape(len(rows), -1).copy())
        target, future = steps[..., 0].split([self.history, self.horizon], dim=1)
        past = 1 + len(self.data.past)
        return SeriesBatch(
            int((~future.isnan()).sum()),
            target.nan_to_num(),
            ~target.isnan(),
            steps[:, : self.history, 1:past],
            steps[..., past:],
            about[:, 0].long(),
            about[:, 1:],
            future,
            reads=steps.size(0) * steps.size(1),
        )

    def loss(self, model: nn.Module, batch: SeriesBatch, *, label_smoothing: float = 0.0) -> Loss:
        return self.forced_loss(model, batch, truth=1.0)

    def forced_loss(
        self, model: nn.Module, batch: SeriesBatch, *, truth: float, label_smoothing: float = 0.0
    ) -> Loss:
        """The loss of a network that reads each true value of the future with this probability, and else its own
        forecast; one that forecasts all steps at once reads none."""
        assert isinstance(model, Forecaster)
        found = model(batch.window, batch.future if model.training else None, truth=truth)
        real = ~batch.future.isnan()
        losses = model.output.loss(found.parameters, batch.future.nan_to_num())
        return Loss((losses * real).sum(), batch.count)

    def scores(self) -> ForecastScores:
        return ForecastScores()

    def forecast(self, model: Forecaster, batch: SeriesBatch, records: Sequence[Series]) -> Forecasts:
        """The forecasts of a batch in the units of each series."""
        found = model(batch.window)
        scalings = [self.scaling(record) for record in records]
        mean, scale = (np.array([getattr(one, name) for one in scalings])[:, None] for name in ("mean", "scale"))
        point = model.output.point(found.parameters).double().cpu().numpy() * scale + mean
        quantiles = model.quantiles(found).double().cpu().numpy() * scale[..., None] + mean[..., None]
        errors = np.array([one.error for one in scalings])
        losses = model.output.loss(found.parameters, batch.future.nan_to_num()) * ~batch.future.isnan()
        return Forecasts(point, quantiles, errors, float(losses.sum()))

    def measure(
        self, model: nn.Module, batch: SeriesBatch, scores: ForecastScores, *, records: Sequence[Series]
    ) -> None:
        assert isinstance(model, Forecaster)
        found = self.forecast(model, batch, records)
        every = np.stack([record.target for record in records])
        history, gold = every[:, : self.history], every[:, self.history :]
        own = [*point_sums(gold, found.point, found.errors), *quantile_sums(gold, found.quantiles, model.levels)]
        simple = simple_baselines(history, season=self.season, horizon=self.horizon)
        scores.add(own, [point_sums(gold, point, found.errors) for point in simple.values()], found.loss, len(records))
        scores.levels = tuple(model.levels)

    def baselines(
        self, train: Iterable[Series], parts: Mapping[str, Sequence[Series]], *, model: nn.Module, seed: int
    ) -> dict[str, Baselines]:
        """`naive`, `seasonal_naive` and `drift` forecasts of the same windows."""
        found: dict[str, Baselines] = {}
        for part, records in parts.items():
            every = np.stack([record.target for record in records])
            history, gold = every[:, : self.history], every[:, self.history :]
            errors = np.array([self.scaling(record).error for record in records])
            simple = simple_baselines(history, season=self.season, horizon=self.horizon)
            found[part] = {name: forecast_metrics(point_sums(gold, point, errors)) for name, point in simple.items()}
        return found

    def calibrate(self, model: nn.Module, batches: Iterable[SeriesBatch]) -> Tree:
        """Fit the offsets of the quantiles: split-conformal intervals."""
        assert isinstance(model, Forecaster)
        residuals = []
        for batch in batches:
            found = model(batch.window)
            residuals.append((batch.future[..., None] - model.output.quantiles(found.parameters)) / found.scale[..., None])
        every = torch.cat(residuals).double().cpu().numpy()
        offsets = conformal_offsets(every, model.levels)
        model.offsets.copy_(torch.from_numpy(offsets))
        text = f"intervals are split-conformal: quantiles moved by their errors in {counted(len(every), 'validation window')}"
        return {"intervals": text, "windows": len(every)}

    def read_inputs(self, inputs: Any) -> list[Series] | None:
        """A path, a table in Python, or the numbers of one series."""
        if isinstance(inputs, Series):
            return [inputs]
        if isinstance(inputs, str | os.PathLike):
            return list(read_series(os.fspath(inputs), self.data.layout, BadLines()))
        rows = find_objects(inputs, "inputs")
        if rows is None:
            return list(read_series(list(inputs), self.data.layout, BadLines()))
        first = next(iter(rows.rows()), None)
        if isinstance(first, Mapping | Series) or hasattr(first, "_fields"):
            return list(series_of_objects(rows, self.data.layout, BadLines()))
        target = self.data.target or ["value"]
        plain = Objects([{target[0]: value} for value in rows.rows()], "inputs")
        found = list(series_of_objects(plain, self.data.layout._replace(time=None, series=None), BadLines()))
        return [replace(one, name=self.codec.labels[0]) if len(self.codec.labels) == 1 else one for one in found]

    def open_inputs(self, name: str | None, *, format: str | None, column: Any, names: list[str]) -> SeriesInputs:
        for option, value in (("--format", format), ("--column", column)):
            if value is not None:
                raise ConfigError("a forecast reads tables as in training", where=f"{option} {value}", cure="remove it")
        return SeriesInputs(self.read(name if name is not None else self.own_files(), self.data, BadLines()))

    def own_files(self) -> list[str]:
        """The files that the run was trained on, in the order of time."""
        parts = [path for path in (self.data.train, self.data.valid, self.data.test) if path is not None]
        paths = [one for path in parts for one in each_path(path)]
        for path in paths:
            if path.startswith(PYTHON) or not Path(path).exists():
                raise DataError("the data of the run is not there", where=path, cure="name a file: weft predict RUN FILE")
        return paths

    def record(self, source: Any) -> Series:
        if isinstance(source, Series):
            return source
        raise DataError(f"{source!r:.40} is no series", cure="give a table with a header line, or a list of numbers")

    def to_predict(self, records: Sequence[Series]) -> list[Series]:
        """The end of each series, and the horizon after it with the columns that are known."""
        found = []
        for record in records:
            place = record.place or f'series "{record.name}"'
            if not record.end:
                raise DataError(f"series {record.name} has no value", where=place, cure="a forecast needs a past")
            if self.data.calendar and not record.frequency:
                cure = "give a table with that column"
                raise DataError(f'no time stamps, and the run reads "{self.data.time}"', where=place, cure=cure)
            window = record.window(record.end - self.history, record.end + self.horizon)
            known = window.steps.array[self.history :, 1 + len(self.data.past) :]
            short = np.isnan(known).any(1)
            if short.any():
                what = f"{', '.join(self.data.known)} known for {int(short.argmax())} of {self.horizon} steps to forecast"
                cure = f"give a row for each step after the last {record.columns[0]}, with that cell empty"
                raise DataError(what, where=place, cure=cure)
            found.append(window)
        return found

    def predict(
        self, model: nn.Module, batch: SeriesBatch, *, records: Sequence[Series], decode: DecodeConfig
    ) -> list[SeriesForecast]:
        assert isinstance(model, Forecaster)
        found = self.forecast(model, batch, records)
        return [
            SeriesForecast(
                record.name,
                tuple(record.times(self.history, self.horizon)),
                tuple(found.point[row].tolist()),
                {level: tuple(found.quantiles[row, :, place].tolist()) for place, level in enumerate(model.levels)},
                record.window(0, self.history),
            )
            for row, record in enumerate(records)
        ]


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


def conformal_offsets(residuals: NDArray[np.float64], levels: Sequence[float]) -> NDArray[np.float64]:
    """residuals (N, H, Q) of validation windows, (y - q) / scale with NaN where y is missing -> what to add to each
    quantile at each step (H, Q), so that a share τ of the targets lies below it; the median stays as it is.

    With n residuals it is the residual of rank ⌈(n + 1) τ⌉ above the median, ⌊(n + 1) τ⌋ below it. Steps share their
    residuals where there are few windows.
    """
    windows, horizon, _ = residuals.shape
    reach = min(horizon, -(-MIN_RESIDUALS // max(1, windows)))
    offsets = np.zeros((horizon, len(levels)))
    for step in range(horizon):
        first = max(0, min(step - reach // 2, horizon - reach))
        for place, level in enumerate(levels):
            near = np.sort(residuals[:, first : first + reach, place][~np.isnan(residuals[:, first : first + reach, place])])
            if level == 0.5 or not len(near):
                continue
            rank = (len(near) + 1) * level
            rank = math.ceil(rank) if level > 0.5 else math.floor(rank)
            offsets[step, place] = near[min(max(rank, 1), len(near)) - 1]
    return offsets
