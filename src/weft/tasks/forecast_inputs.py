"""The inputs of forecasts: series given in Python, the files of a run, and the window that a forecast reads."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from weft.data import BadLines, Objects, find_objects
from weft.data.series import Series, windows_of
from weft.data.series_table import read_series, series_of_objects
from weft.data.sources import CHECK_PATH, PYTHON, each_path
from weft.errors import DataError
from weft.tasks.forecast_data import ForecastData


def read_series_inputs(inputs: Any, data: ForecastData, names: Sequence[str]) -> list[Series] | Series:
    """The series of a path or of several, or of a table in Python; or the one series of a list of numbers, which has
    the name of the first series of a run."""
    if isinstance(inputs, Series):
        return inputs
    paths = isinstance(inputs, str | os.PathLike)
    rows = None if paths else find_objects(inputs, "inputs")
    if rows is None:
        found = os.fspath(inputs) if paths else [os.fspath(path) for path in inputs]
        try:
            return list(read_series(found, data.layout, BadLines()))
        except DataError as error:
            if error.cure != CHECK_PATH:
                raise
            # Perhaps a text, which is the input of other tasks.
            cure = "the input of a forecast is a CSV or TSV file with a header line"
            raise DataError(error.what, where=error.where, cure=cure) from None
    first = next(iter(rows.rows()), None)
    if isinstance(first, Mapping | Series) or hasattr(first, "_fields"):
        return list(series_of_objects(rows, data.layout, BadLines()))
    plain = Objects([{names[0]: value} for value in rows.rows()], "inputs")
    columns = data.layout._replace(time=None, series=None, target=(names[0],))
    (one,) = series_of_objects(plain, columns, BadLines())
    return one


def own_files(data: ForecastData) -> list[str]:
    """The files that a run was trained on, in the order of time."""
    parts = [path for part in ("train", "valid", "test") if (path := data.files(part)) is not None]
    paths = [one for path in parts for one in each_path(path)]
    for path in paths:
        if path.startswith(PYTHON) or not Path(path).exists():
            raise DataError("the data of the run is not there", where=path, cure="name a file: weft predict RUN FILE")
    return paths


def forecast_window(record: Series, data: ForecastData) -> Series:
    """The end of a series, and the horizon after it with the columns that are known of the future."""
    history, horizon, _ = data.lengths
    place = record.place or f'series "{record.name}"'
    if not record.end:
        raise DataError(f"series {record.name} has no value", where=place, cure="a forecast needs a past")
    if data.calendar and not record.frequency:
        what = f'no time stamps, and the run reads those of "{data.time}"'
        raise DataError(what, where=place, cure="give a table with that column")
    window = record.window(record.end - history, record.end + horizon)
    missing = np.isnan(window.steps.array[history:, 1 + len(data.past) :]).any(1)
    if missing.any():
        known = int(missing.argmax())
        what = f"{' and '.join(data.known)} known for {known} of the {horizon} steps to forecast"
        cure = f"give a row for each step after the last {record.columns[0]}, whose own cell is empty"
        cure += f"; the first that lacks it is {window.times(history + known, 1)[0]}" if record.frequency else ""
        raise DataError(what, where=place, cure=cure)
    return replace(window, origin=history)


def last_window(record: Series, data: ForecastData) -> Series:
    """The last horizon of a series, with the history before it."""
    history, horizon, season = data.lengths
    origin = record.end - horizon
    if origin < 1:
        what = f"{record.end} steps, of which the last {horizon} are to be forecast"
        raise DataError(what, where=record.place or f'series "{record.name}"', cure="give a longer series")
    (window,) = windows_of(replace(record, season=season), range(origin, origin + 1), history=history, horizon=horizon)
    return window
