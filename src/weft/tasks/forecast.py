"""Forecast: the next numbers of one series or many. MASE, MAE, RMSE, sMAPE, quantile loss, coverage of intervals.

    z = (y - mean) / scale of the training part of the series          the network reads and forecasts z

A training example is a window of `history` steps and the `horizon` after them; windows overlap and share their numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from weft import limits
from weft.data import (
    BadLines,
    Columns,
    Corpus,
    Objects,
)
from weft.data.series import Series, windows_of
from weft.data.series_table import read_series, series_of_objects
from weft.decoding import DecodeConfig
from weft.errors import ConfigError, DataError, counted
from weft.metrics.conformal import conformal_offsets, cross_coverage
from weft.metrics.forecast import forecast_metrics, point_sums, quantile_sums, simple_baselines
from weft.models.forecaster import Forecaster, ForecastSizes
from weft.models.forecaster_settings import FORECASTERS, ForecasterConfig
from weft.settings import OneOf, TableError
from weft.tasks.forecast_answer import SeriesForecast, SeriesInputs
from weft.tasks.forecast_data import ForecastData, evaluation_origins, find_data_settings, listed
from weft.tasks.forecast_encoding import SeriesBatch, SeriesTask
from weft.tasks.forecast_inputs import forecast_window, last_window, own_files, read_series_inputs
from weft.tasks.forecast_parts import conflicts_in_data, continue_series, divide_corpus
from weft.tasks.forecast_picture import draw_forecasts
from weft.tasks.forecast_scaling import learn_scalings
from weft.tasks.forecast_scores import ForecastScores
from weft.tasks.length import passes
from weft.tasks.lessons import Lesson
from weft.tasks.records import Division
from weft.tasks.sections import Facts, Sections, Tree, written
from weft.tasks.task import Baselines, Codec, Loss
from weft.text import TextConfig

MAX_EVALUATION_WINDOWS: Final = 1000
"""Windows of an evaluation at most, over all series."""

MAX_WINDOWS_READ: Final = 200_000
"""Windows that a training reads by default where an epoch is long."""

MODEL = OneOf(FORECASTERS)


class Forecasts(NamedTuple):
    """point (B, H) and quantiles (B, H, Q) in the units of each series, their naive errors (B,), NaN for those without,
    and the sum of losses."""

    point: NDArray[np.float64]
    quantiles: NDArray[np.float64]
    errors: NDArray[np.float64]
    loss: float


class Forecast(SeriesTask):
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
    answers_rows = False
    reads_files = has_answer = True
    has_baselines = True
    smooths_labels = False
    size_unit = "numbers"
    rolls_origin = True
    caches = False  # parts are cut off a table by settings that the cache does not know
    min_valid_examples = 2  # each is a whole horizon, and training starts at a forecast that is worth keeping
    prediction_hint = "the next steps after the data of the run"

    @staticmethod
    def defaults(facts: Facts, tree: Mapping[str, Any]) -> Tree:
        data = written(tree, "data") or {}
        history, horizon = (written(data, name) or 1 for name in ("history", "horizon"))
        steps = facts.characters / max(1, facts.width)
        kind = MODEL.kind_of(written(tree, "model"))
        small = steps < 2000
        size = 32 if small else 64
        dropout = 0.1 if small else 0.2
        models: dict[str, Tree] = {
            "rnn": {"embedding": 32, "hidden": size, "dropout": dropout},
            "transformer": {"width": size, "heads": 4, "layers": 2, "dropout": dropout},
            "conv": {"embedding": 32, "width": size, "layers": 4, "kernel": 8, "dropout": dropout},
            "linear": {"dropout": dropout},
        }
        rows = 32 if small else 64
        batch = rows * (history + horizon)
        tokens = steps * (history + horizon)
        return {
            "model": models.get(kind, {}),
            "train": {
                "epochs": passes(
                    tree,
                    tokens,
                    batch,
                    epochs=MAX_WINDOWS_READ / max(1.0, steps),
                    between=(2, 20),
                    updates=round(min(600, 2 * steps)),
                ),
                "batch_tokens": min(batch, limits.BATCH_TOKENS),
                "rate": 2e-3 if kind == "rnn" and small else 1e-3,
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

    @classmethod
    def own_metric(cls, measured: Collection[str]) -> str:
        return cls.metric if cls.metric in measured else "mae"

    def measured_on(self, records: Iterable[Series]) -> Sequence[str]:
        errors = self.naive_errors(list(records))
        constant = len(errors) > 0 and bool(np.isnan(errors).all())
        return [name for name in self.metrics if not constant or name != "mase"]

    @staticmethod
    def find_settings(records: Iterable[Series], data: ForecastData) -> tuple[Tree, list[str]]:
        return find_data_settings(list(records), data)

    @staticmethod
    def divide(records: Corpus, data: ForecastData) -> Division:
        return divide_corpus(records, data)

    @staticmethod
    def follow(earlier: Iterable[Series], later: Iterable[Series]) -> Iterable[Series]:
        return list(continue_series(earlier, later))

    @classmethod
    def conflicts(cls, config: Any) -> Iterator[TableError]:
        yield from conflicts_in_data(config.data)
        forcing = config.train.teacher_forcing
        if forcing != 1.0 and config.model.multistep == "direct":
            what = 'the network reads no forecast of its own: model.multistep = "direct"'
            shown = forcing if isinstance(forcing, float) else f'{{ kind = "{forcing.kind}" }}'
            yield TableError(what, where=f"train.teacher_forcing = {shown}", cure='remove it, or use "recursive"')

    @staticmethod
    def learn(records: Iterable[Series], text: TextConfig) -> Codec:
        return Codec({}, *learn_scalings(list(records)))

    @classmethod
    def network(cls, config: Any, codec: Codec) -> nn.Module:
        history, horizon, season = config.data.lengths
        known = len(config.data.known) + 2 * len(config.data.calendar or ())
        columns = len(config.data.past), known, len(config.data.static_numbers)
        categories = tuple(map(len, (config.data.categories or {}).values()))
        sizes = ForecastSizes(history, horizon, season, *columns, len(codec.labels), categories)
        return Forecaster(config.model, sizes)

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
            what, cure = "no series has a value to forecast", "give the numbers that forecasts are compared with"
            if not any(record.origin for record in every):
                what = f"no series has a step before the last {horizon}, which are to be forecast"
                cure = "give longer series, or lower data.horizon"
            raise DataError(what, where=every[0].place or None, cure=cure)
        return found

    def loss(self, model: nn.Module, batch: SeriesBatch, *, label_smoothing: float = 0.0) -> Loss:
        return self.forced_loss(model, batch, truth=1.0)

    def forced_loss(self, model: nn.Module, batch: SeriesBatch, *, truth: float, label_smoothing: float = 0.0) -> Loss:
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
        floor = np.array([one.floor for one in scalings])[:, None, None]
        quantiles = model.quantiles(found).double().cpu().numpy() * scale[..., None] + mean[..., None]
        quantiles = np.maximum(quantiles, floor)
        point = quantiles[..., model.levels.index(0.5)]
        errors = self.naive_errors(records)
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
        scores.trained_on += sum(self.trained_on(record) for record in records)

    def baselines(
        self, train: Iterable[Series], parts: Mapping[str, Sequence[Series]], *, model: nn.Module, seed: int
    ) -> dict[str, Baselines]:
        """`naive`, `seasonal_naive` and `drift` forecasts of the same windows."""
        found: dict[str, Baselines] = {}
        for part, records in parts.items():
            every = np.stack([record.target for record in records])
            history, gold = every[:, : self.history], every[:, self.history :]
            errors = self.naive_errors(records)
            simple = simple_baselines(history, season=self.season, horizon=self.horizon)
            found[part] = {name: forecast_metrics(point_sums(gold, point, errors)) for name, point in simple.items()}
        return found

    def calibrate(self, model: nn.Module, batches: Iterable[SeriesBatch]) -> Tree:
        """Fit the offsets of the quantiles: split-conformal intervals."""
        assert isinstance(model, Forecaster)
        residuals = []
        for batch in batches:
            found = model(batch.window)
            residuals.append(
                (batch.future[..., None] - model.output.quantiles(found.parameters)) / found.scale[..., None]
            )
        every = torch.cat(residuals).double().cpu().numpy()
        offsets = conformal_offsets(every, model.levels)
        model.offsets.copy_(torch.from_numpy(offsets))
        windows = counted(len(every), "validation window")
        text = f"intervals are split-conformal: quantiles moved by their errors in {windows}"
        covered = cross_coverage(every, model.levels)
        if covered is None:
            return {"intervals": f"{text}, so their coverage there is in sample", "windows": len(every)}
        text += (
            f", so their coverage there is in sample; moved by one half, they cover {100 * covered:.0f}% of the other"
        )
        return {"intervals": text, "windows": len(every), "coverage": covered}

    def read_inputs(self, inputs: Any) -> list[Series] | Series:
        return read_series_inputs(inputs, self.data, self.codec.labels)

    def open_inputs(self, name: str | None, *, format: str | None, column: Any, names: list[str]) -> SeriesInputs:
        for option, value in (("--format", format), ("--column", column)):
            if value is not None:
                raise ConfigError("a forecast reads tables as in training", where=f"{option} {value}", cure="remove it")
        bad = BadLines()
        every = list(self.read(name if name is not None else own_files(self.data), self.data, bad))
        empty = [record for record in every if not record.end]
        if not empty or len(empty) == len(every):
            return SeriesInputs(every, bad)
        bad.notes.append(f"no forecast of {listed([record.name for record in empty])}: all values are missing")
        return SeriesInputs([record for record in every if record.end], bad)

    def record(self, source: Any) -> Series:
        if isinstance(source, Series):
            return source
        raise DataError(f"{source!r:.40} is no series", cure="give a table with a header line, or a list of numbers")

    def answered(self, record: Series, answer: Any) -> Series:
        raise DataError("the answer of a forecast is the end of its series", where="target", cure="leave it out")

    def lesson(self, model: Any, record: Series) -> Lesson:
        return super().lesson(model, last_window(record, self.data))

    def read_positions(self, model: Any, batch: SeriesBatch, record: Series) -> dict[str, tuple[str, ...]]:
        """The time stamps of the steps; one that reads the value before it has its own."""
        first, count = model.steps_read
        return {"decoder": tuple(record.times(first, count))}

    def draw(self, answers: Sequence[SeriesForecast]) -> Any:
        return draw_forecasts(answers)

    def to_predict(self, records: Sequence[Series]) -> list[Series]:
        return [forecast_window(record, self.data) for record in records]

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
