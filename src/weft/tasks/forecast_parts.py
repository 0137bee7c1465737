"""The parts of series in time: training, validation and test, cut off one file or read from several.

train …………………………| valid ……………| test ……………       time →
|← history →|← horizon →|                            a training window lies within the training part
          |← history →|← horizon →|                  a validation window forecasts steps of the validation part
                        |← history →|← horizon →|    a test window forecasts steps of the test part
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from weft.data import Corpus
from weft.data.series import Series
from weft.errors import ConfigError, DataError, counted
from weft.settings import TableError
from weft.tasks.forecast_data import ForecastData, notes_on_values, test_steps, valid_steps
from weft.tasks.records import Division


class SeriesParts(NamedTuple):
    """The training part of a series, and the series up to the end of its validation and its test part, with the origin
    where that part begins; None for a part that it does not have."""

    train: Series
    valid: Series | None
    test: Series | None


def divide_in_time(record: Series, data: ForecastData) -> SeriesParts:
    """The parts of one series. Each is a copy that ends with it: no window sees what follows."""
    _, horizon, season = data.lengths
    whole = replace(record, season=season, origin=0)
    tested = test_steps(whole.end, data)
    before = whole.end - tested
    held = valid_steps(whole.end, before, data, horizon)
    begin = before - held
    if begin < horizon + 2:
        _check_length(record, begin, horizon, data)
    return SeriesParts(
        whole.window(0, begin),
        replace(whole.window(0, before), origin=begin) if held else None,
        replace(whole.window(0, whole.end), origin=before) if tested else None,
    )


def _check_length(record: Series, begin: int, horizon: int, data: ForecastData) -> None:
    """Raise for a series of which the parts for validation and test leave no training window."""
    cut = [name for name in ("valid", "test") if getattr(data, name) is not None and not data.files(name)]
    if not cut:
        return
    shown = " and ".join(f"data.{name} = {getattr(data, name)}" for name in cut)
    what = f"{shown} leave {counted(max(0, begin), 'step')} of {record.end:,} to learn from"
    cure = f"lower them, or leave the series out: a horizon of {horizon} needs {horizon + 2}"
    raise DataError(what, where=f'{record.place}: series "{record.name}"', cure=cure)


def divide_corpus(records: Iterable[Series], data: ForecastData) -> Division:
    """All series in their parts, and notes on what was set aside."""
    for name in ("valid", "test"):
        size = getattr(data, name)
        if isinstance(size, int) and size < data.lengths[1]:
            what = f"is shorter than the horizon of {counted(data.lengths[1], 'step')}"
            raise ConfigError(what, where=f"data.{name} = {size}", cure="raise it, or lower data.horizon")
    parts = [divide_in_time(record, data) for record in records]
    aside: dict[str, Corpus] = {}
    notes = []
    every = sum(part.end for one in parts for part in (one.test or one.valid or one.train,))
    for name in ("valid", "test"):
        held = [part for one in parts if (part := getattr(one, name)) is not None]
        if not held:
            continue
        aside[name] = Corpus.of(held)
        steps = sum(part.end - part.origin for part in held)
        share = f"{steps / max(1, every):.0%} of all steps"
        if name == "test":
            notes.append(f"test: the end of each series, {share}; nothing else is fitted or chosen on it")
        elif data.valid is None:
            place = "the end of each series" if data.test is None or data.files("test") else "the steps before the test"
            notes.append(f"no data.valid: set aside {place}, {share}")
        else:
            notes.append(f"validation: the last steps of each series before later parts, {share}")
    notes += notes_on_values([one.train for one in parts])
    return Division(Corpus.of([one.train for one in parts]), aside, notes)


def conflicts_in_data(data: ForecastData) -> Iterator[TableError]:
    """An error for parts that cannot follow each other in time, and for categories of no column."""
    for column, texts in (data.categories or {}).items():
        where = f"data.categories.{column}"
        if column not in data.static:
            yield TableError("is no column of data.static", where=where, cure="name it there too")
        if len(set(texts)) < len(texts):
            yield TableError("has a text twice", where=where, cure="remove one")
    for name in ("frequency", "calendar"):
        if data.time is False and getattr(data, name):
            where = f"data.{name} = {json.dumps(getattr(data, name))}"
            yield TableError("needs time stamps, but data.time = false", where=where, cure="remove one of the two")
    if isinstance(data.test, int | float) and data.files("valid"):
        what = "is cut off the end of data.train, but data.valid is a file, whose steps come later"
        yield TableError(
            what, where=f"data.test = {data.test}", cure="give a file as data.test, or a share as data.valid"
        )
    shares = [part for part in (data.valid, data.test) if isinstance(part, float)]
    if sum(shares) >= 1:
        what = f"and data.valid = {data.valid} leave nothing to learn from"
        yield TableError(what, where=f"data.test = {data.test}", cure="lower them")


def continue_series(earlier: Iterable[Series], later: Iterable[Series]) -> Iterator[Series]:
    """Each series of a later file, with its past in the earlier one as history, and its season."""
    known = {record.name: record for record in earlier}
    for record in later:
        before = known.get(record.name)
        if before is None:
            yield replace(record, season=next(iter(known.values())).season if known else 1)
            continue
        if record.frequency and record.start <= int(before.seconds(before.end - 1, 1)[0]):
            what = f'series "{record.name}" begins at {record.times(0, 1)[0]}, within the data before it'
            cure = (
                f"validation and test data follow the training data, which ends at {before.times(before.end - 1, 1)[0]}"
            )
            raise DataError(what, where=record.place, cure=cure)
        yield replace(before.followed_by(record), place=record.place)
