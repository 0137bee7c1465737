"""From series to batches of windows: scaled numbers, calendar features, and views of all windows of a series.

    row of an example: (L + H) steps of [target, past …, known …, calendar …]          L history, H horizon

Windows of one series overlap and share their numbers: the columns of training examples are views of whole series.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft import limits
from weft.data import Capacity, Examples, Limit, Ragged, Statistics, pad_numbers
from weft.data.ragged import numbers_of
from weft.data.series import Series
from weft.data.series_time import calendar
from weft.errors import DataError
from weft.models.forecaster import SeriesWindow
from weft.tasks.forecast_data import ForecastData, observed_windows
from weft.tasks.forecast_scaling import COVARIATES, ERROR, FLOOR, NO_ERROR, STATIC, TARGET, UNTIL, Scaling, scaling_of
from weft.tasks.task import Batch, Codec, Rows, Task
from weft.text import TextConfig

STEPS, SERIES = "steps", "series"
"""The columns of encoded examples."""


@dataclass(frozen=True)
class SeriesBatch(Batch):
    """The parts of a `SeriesWindow`, and the future (B, H) of the targets, NaN where they are missing."""

    target: Tensor
    observed: Tensor
    past: Tensor
    known: Tensor
    series: Tensor
    static: Tensor
    categories: Tensor
    future: Tensor

    @property
    def window(self) -> SeriesWindow:
        parts = self.target, self.observed, self.past, self.known, self.series, self.static, self.categories
        return SeriesWindow(*parts)


class SeriesTask(Task):
    """A task whose records are series, and whose examples are windows of them."""

    data: ForecastData
    rows_overlap = True

    def __init__(self, codec: Codec, data: ForecastData) -> None:
        super().__init__(codec, data)
        self.history, self.horizon, self.season = data.lengths
        found = codec.statistics
        columns = (found[TARGET].mean, found[TARGET].scale, found[ERROR].scale, found[UNTIL].mean, found[FLOOR].mean)
        self.scalings = dict(zip(codec.labels, (Scaling(*one) for one in zip(*columns, strict=True)), strict=True))

    @classmethod
    def tokenizer_roles(cls, text: Any, data: Any) -> dict[str, TextConfig]:
        return {}

    @classmethod
    def statistic_sizes(cls, data: ForecastData) -> dict[str, int | None]:
        columns = {COVARIATES: len(data.past) + len(data.known), STATIC: len(data.static_numbers)}
        return dict.fromkeys((TARGET, ERROR, UNTIL, FLOOR)) | {name: size for name, size in columns.items() if size}

    def limit(self, *, training: bool) -> Limit | None:
        return Limit(limits.LENGTH_TOKENS, "error") if training else None

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
            columns[SERIES].append(np.array([number, *self.category_ids(record), *static[0]], dtype=np.float32))
        return columns

    def category_ids(self, record: Series) -> list[int]:
        """The number of each category of a series, from 1 on; 0 for one that is missing, or not in the training data:
        it has no vector."""
        own = dict(record.categories)
        return [
            texts.index(own[column]) + 1 if own.get(column) in texts else 0
            for column, texts in (self.data.categories or {}).items()
        ]

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
        statistics: Statistics = self.codec.statistics[name]
        return statistics.standardise(columns)

    def scaling(self, record: Series) -> Scaling:
        """The scaling of a series: that of the training data, or where it was not part of that, of its history alone:
        the numbers to forecast must not scale their own forecast."""
        if (found := self.scalings.get(record.name)) is not None:
            return found
        return scaling_of(replace(record.window(0, self.history), season=self.season))

    def naive_errors(self, records: Sequence[Series]) -> NDArray[np.float64]:
        """The naive error of each series (B,), NaN where it has none."""
        errors = np.array([self.scaling(record).error for record in records])
        return np.where(errors == NO_ERROR, np.nan, errors)

    def trained_on(self, window: Series) -> bool:
        """Whether the first step that a window forecasts is part of the training data."""
        known = self.scalings.get(window.name)
        return known is not None and bool(window.frequency) and window.seconds(self.history, 1)[0] <= known.until

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

    def record_of_row(self, examples: Examples) -> NDArray[np.int64]:
        return self.stretches(cast(Sequence[Series], examples.records or ()))

    def stretches(self, windows: Sequence[Series]) -> NDArray[np.int64]:
        """The number of the stretch of each window: those whose forecasts begin within one horizon share steps."""
        found: list[int] = []
        first: Series | None = None
        for window in windows:
            new = first is None or window.name != first.name or first.steps_until(window) >= self.horizon
            first = window if new else first
            found.append(new + (found[-1] if found else -1))
        return np.array(found, dtype=np.int64)

    def cost(self, columns: Mapping[str, Any]) -> NDArray[np.int64]:
        lengths: NDArray[np.int64] = columns[STEPS].lengths // self.width
        return lengths

    def collate(
        self, examples: Examples, rows: Rows, *, packed: bool = False, capacity: Capacity | None = None
    ) -> SeriesBatch:
        steps, _ = pad_numbers(examples.columns[STEPS], rows, self.width)
        about = torch.from_numpy(numbers_of(examples.columns[SERIES].join(rows)).reshape(len(rows), -1).copy())
        target, future = steps[:, : self.history, 0], steps[:, self.history :, 0]
        past, first = 1 + len(self.data.past), 1 + len(self.data.categories or ())
        return SeriesBatch(
            int((~future.isnan()).sum()),
            target.nan_to_num(),
            ~target.isnan(),
            steps[:, : self.history, 1:past],
            steps[..., past:],
            about[:, 0].long(),
            about[:, first:],
            about[:, 1:first].long(),
            future,
            reads=steps.size(0) * steps.size(1),
        )
