"""Forecasts: a window of a series as the network reads it, and its quantiles in the units of the series."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from weft import limits
from weft.data import BadLines, Objects, find_objects
from weft.data.series import Series
from weft.data.series_columns import SeriesColumns
from weft.data.series_table import read_series, series_of_objects
from weft.data.series_time import calendar
from weft.data.steps import deviation_of
from weft.errors import DataError
from weft.export.onnx.runner.answering import Answering
from weft.export.onnx.runner.graphs import Array, Arrays
from weft.export.onnx.runner.rows import NEXT

MAX_SERIES: Final = 256
"""Series that are forecast together."""

MIN_ZEROS: Final = 0.01
"""The share of zeros from which on a series without a negative value never has one."""


class Forecasts(Answering):
    """Forecasts the steps after the last of each series."""

    def prepare(self) -> None:
        facts = self.facts
        layout: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in facts["columns"].items()
        }
        self.layout = SeriesColumns(**layout)
        self.history, self.horizon = (_length(name, facts[name]) for name in ("history", "horizon"))
        self.calendar, self.categories = facts["calendar"], facts["categories"]
        self.levels: list[float] = facts["levels"]
        self.names = [one["name"] for one in facts["series"]]
        self.scalings = {one["name"]: (one["mean"], one["scale"], one["floor"]) for one in facts["series"]}

    def predict(self, inputs: Any, options: Mapping[str, Any]) -> list[dict[str, Any]]:
        """inputs: a path or several, a table in Python, a list of numbers, or series."""
        self.refuse_options(options)
        windows = [self._window(one) for one in self._read(inputs)]
        answers = []
        for first in range(0, len(windows), MAX_SERIES):
            group = windows[first : first + MAX_SERIES]
            answers += [self._answer(*one) for one in zip(group, self._quantiles(group), strict=True)]
        return answers

    def _read(self, inputs: Any) -> list[Series]:
        if isinstance(inputs, Series):
            return [inputs]
        if isinstance(inputs, list | tuple) and inputs and all(isinstance(one, Series) for one in inputs):
            return list(inputs)
        paths = isinstance(inputs, str | os.PathLike)
        rows = None if paths else find_objects(inputs, "inputs")
        if rows is None:
            found = os.fspath(inputs) if paths else [os.fspath(path) for path in inputs]
            return list(read_series(found, self.layout, BadLines()))
        first = next(iter(rows.rows()), None)
        if isinstance(first, Mapping | Series) or hasattr(first, "_fields"):
            return list(series_of_objects(rows, self.layout, BadLines()))
        name = self.names[0]
        plain = Objects([{name: value} for value in rows.rows()], "inputs")
        return list(series_of_objects(plain, self.layout._replace(time=None, series=None, target=(name,)), BadLines()))

    def _window(self, record: Series) -> Series:
        """The end of a series, and the horizon after it with what is known of the future."""
        place = record.place or f'series "{record.name}"'
        if not record.end:
            raise DataError(f"series {record.name} has no value", where=place, cure="a forecast needs a past")
        if self.calendar and not record.frequency:
            raise DataError("no time stamps, and the model reads them", where=place, cure="give a table with them")
        window = record.window(record.end - self.history, record.end + self.horizon)
        future = window.steps.array[self.history :, 1 + len(self.layout.past) :]
        if np.isnan(future).any():
            what = f"{' and '.join(self.layout.known)} known for less than {self.horizon} steps to forecast"
            raise DataError(what, where=place, cure="give a row for each step after the last")
        return window

    def _scaling(self, window: Series) -> tuple[float, float, float]:
        """Mean, scale and floor: those of the training data, or of the window's history alone."""
        if (found := self.scalings.get(window.name)) is not None:
            return found
        values = window.target[: self.history]
        values = values[~np.isnan(values)]
        mean = float(values.mean()) if len(values) else 0.0
        deviation = deviation_of(values)
        positive = len(values) > 0 and values.min() == 0 and (values == 0).mean() >= MIN_ZEROS
        return mean, deviation or max(abs(mean), 1.0), 0.0 if positive else -np.inf

    def _inputs(self, windows: Sequence[Series]) -> Arrays:
        """The inputs of the graph, and some that it may not have."""
        steps = np.stack([self._numbers(window) for window in windows]).astype(np.float32)
        target, past = steps[:, : self.history, 0], 1 + len(self.layout.past)
        about = [self._about(window) for window in windows]
        return {
            "target": np.nan_to_num(target),
            "observed": ~np.isnan(target),
            "past": steps[:, : self.history, 1:past],
            "known": steps[:, :, past:],
            "series": np.array([number for number, _, _ in about], dtype=np.int64),
            "categories": np.array([numbers for _, numbers, _ in about], dtype=np.int64),
            "static": np.array([static for _, _, static in about], dtype=np.float32),
        }

    def _numbers(self, window: Series) -> Array:
        """The steps (L + H, D); a missing target is NaN, other missing numbers 0."""
        array, (mean, scale, _) = window.steps.array, self._scaling(window)
        parts = [(array[:, :1] - mean) / scale]
        if array.shape[1] > 1:
            parts.append(np.nan_to_num(self.statistics["covariate"].standardise(array[:, 1:])))
        if self.calendar:
            parts.append(calendar(window.seconds(0, len(array)), self.calendar))
        return np.concatenate(parts, axis=1)

    def _about(self, window: Series) -> tuple[int, list[int], Array]:
        """The numbers of the series and of its categories, and its static numbers."""
        number = self.names.index(window.name) + 1 if window.name in self.scalings else 0
        own = dict(window.categories)
        numbers = [
            texts.index(own[column]) + 1 if own.get(column) in texts else 0 for column, texts in self.categories.items()
        ]
        static = self.statistics["static"].standardise(np.array([window.static]))[0] if window.static else np.zeros(0)
        return number, numbers, static

    def _quantiles(self, windows: Sequence[Series]) -> Array:
        """(B, H, Q) in the units of each series."""
        inputs = self._inputs(windows)
        found = self._recursive(inputs) if "step" in self.graphs else self.graphs.run("forward", inputs)["quantiles"]
        mean, scale, floor = (np.array(part)[:, None, None] for part in zip(*map(self._scaling, windows), strict=True))
        quantiles: Array = np.maximum(found.astype(np.float64) * scale + mean, floor)
        return quantiles

    def _recursive(self, inputs: Arrays) -> Array:
        """One step after the other: each reads the forecast before it."""
        count = len(inputs["target"])
        first, state, found = self.graphs.run("start", inputs), Arrays(), []
        for field in self.graphs.fields:
            sizes = [0 if isinstance(size, str) else size for size in field.shape]
            state[field.name] = first.get(field.name, np.zeros((count, *sizes), dtype=np.float32))
        for number in range(self.horizon):
            output = self.graphs.run("step", {"step": np.full(count, number), **state})
            state |= {name.removeprefix(NEXT): array for name, array in output.items() if name.startswith(NEXT)}
            found.append(output["quantiles"])
        return np.stack(found, axis=1)

    def _answer(self, window: Series, quantiles: Array) -> dict[str, Any]:
        point = quantiles[:, self.levels.index(0.5)]
        return {
            "series": window.name,
            "time": list(window.times(self.history, self.horizon)),
            "forecast": point.tolist(),
            "quantiles": {f"{level:g}": quantiles[:, place].tolist() for place, level in enumerate(self.levels)},
        }


def _length(name: str, value: Any) -> int:
    """A number of steps; one that no run can have would fill the memory with a window of that length."""
    if type(value) is not int or not 1 <= value <= limits.LENGTH_TOKENS:
        raise ValueError(f"{name} is no number of steps")
    return value
