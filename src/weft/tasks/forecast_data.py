"""The `[data]` section of a forecast: columns, season and lengths; those left open are found in the training data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

import numpy as np
from pydantic import BeforeValidator, Field, field_validator

from weft import limits
from weft.data.season import default_season, find_season
from weft.data.series import Series
from weft.data.series_columns import SeriesColumns
from weft.data.series_time import HORIZONS, find_cycles, read_frequency
from weft.errors import ConfigError, DataError, counted
from weft.settings import Length, show
from weft.tasks.sections import DataConfig, Tree

VALID_SHARE: Final = 0.2
"""The share of each series, before its test part, that is set aside for validation."""

MAX_SEASONS: Final = 4
"""Seasons of the default history where the data has enough of them."""

MIN_HISTORY: Final = 16

MAX_NAMES: Final = 6
"""Columns that a note names."""

MAX_HISTORY: Final = 2048
"""Steps of the longest default history."""

Names = Annotated[list[str], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)]
"""Columns; a single one may stand alone."""


def _is_part(value: Any) -> Any:
    """Check a share between 0 and 1 or a number of steps; what is no number is checked as a path."""
    if isinstance(value, bool) or not isinstance(value, int | float) or 0 < value < 1:
        return value
    if value < 1 or value % 1:
        raise ValueError(f"{value} is neither a file, nor a share between 0 and 1, nor a number of steps")
    if value > limits.LENGTH_TOKENS:
        raise ValueError(f"{show(value)} is more than {limits.LENGTH_TOKENS:,} steps, the limit")
    return int(value)


Part = Annotated[str | list[str] | Annotated[float, Field(gt=0.0, lt=1.0)] | Length | None, BeforeValidator(_is_part)]
"""The files of a part of the data; or the end of each series in the training file, as a share or in steps."""


Texts = Annotated[list[str], Field(min_length=1, max_length=limits.SIZE)]
"""The categories of a column."""


class ForecastData(DataConfig):
    """A table of numbers in time, with a header line: a column for each series, or a row for each series and time."""

    valid: Part = None  # type: ignore[assignment]  # a number besides what other tasks have
    """Validation data: files, or the last steps of each series before the test part, as a share (0.2) or a number."""
    test: Part = None  # type: ignore[assignment]
    """Test data: files, or the last steps of each series, as a share (0.2) or a number of steps."""
    target: Names | None = None
    """The columns to forecast; by default all columns of numbers without another role."""
    time: str | Literal[False] | None = None
    """The column of time stamps; by default found by their form; false: none, rows are in the order of time."""
    series: str | None = None
    """The column with the name of a row's series, where a file has several below each other."""
    static: Names = Field(default_factory=list)
    """Columns with one number, or one text such as a category, for a whole series."""
    categories: dict[str, Texts] | None = None
    """The texts of those columns of `static` that hold texts, by column; by default found in the training data."""
    past: Names = Field(default_factory=list)
    """Columns of numbers that are known only of the past."""
    known: Names = Field(default_factory=list)
    """Columns of numbers that are known of the future too, such as holidays or prices."""
    calendar: list[Literal["day", "week", "year"]] | None = None
    """Cycles of the calendar whose phase is an input; by default those that occur at least twice."""
    frequency: str | None = None
    """The distance of two steps: a count and s, min, h, D, B (Monday to Friday), W, M or Y, as in "15min"."""
    season: Length | None = None
    """Steps after which a series repeats; 1 is no season. By default found by autocorrelation."""
    history: Length | None = None
    """Steps before a forecast that the model knows."""
    horizon: Length | None = None
    """Steps to forecast."""

    @field_validator("time", mode="before")
    @classmethod
    def _column_or_none(cls, time: Any) -> Any:
        if time is True:
            raise ValueError("true is neither the name of a column, nor false for none")
        return time

    @field_validator("frequency")
    @classmethod
    def _known_frequency(cls, frequency: str | None) -> str | None:
        if frequency is not None:
            try:
                read_frequency(frequency)  # the text stays as it is written, for notes and errors
            except ConfigError as error:
                raise ConfigError(error.what, where=f'frequency = "{frequency}"', cure=error.cure) from None
        return frequency

    @property
    def layout(self) -> SeriesColumns:
        """The columns for a reader."""
        return SeriesColumns(
            tuple(self.target or ()),
            self.time,
            self.series,
            tuple(self.static),
            tuple(self.past),
            tuple(self.known),
            self.frequency,
            None if self.categories is None else tuple(self.categories),
        )

    @property
    def static_numbers(self) -> list[str]:
        """The columns of `static` that hold numbers."""
        return [name for name in self.static if name not in (self.categories or {})]

    @property
    def lengths(self) -> tuple[int, int, int]:
        """History, horizon and season; small ones while they are not yet found."""
        return self.history or MIN_HISTORY, self.horizon or 1, self.season or 1


def find_data_settings(records: Sequence[Series], data: ForecastData) -> tuple[Tree, list[str]]:
    """The settings that the data decides, and notes on them."""
    check_numbers(records)
    first = records[0]
    frequency = data.frequency or first.frequency or None
    if data.frequency is not None and not first.frequency:
        where = f'data.frequency = "{data.frequency}"'
        raise ConfigError("there are no time stamps", where=where, cure="remove it, or name data.time")
    # Nothing is found in the test part: it is what a user does not know yet.
    most = max(record.end for record in records)
    if test_steps(most, data) >= most:
        what = f"leaves nothing of the {counted(most, 'step')} of the longest series"
        raise ConfigError(what, where=f"data.test = {data.test}", cure="lower it")
    records = [record.window(0, max(1, record.end - test_steps(record.end, data))) for record in records]
    longest = max(record.end for record in records)
    found: Tree = {
        "target": list(dict.fromkeys(record.columns[0] for record in records)),
        "time": first.columns[1] or None,
        "series": first.columns[2] or None,
        "frequency": frequency,
    }
    if data.static and data.categories is None:
        found["categories"] = find_categories(records)
    notes = []
    season = data.season
    if season is None:
        season = find_season([record for record in records if not is_constant(record)], frequency or "")
        few = longest < 3 * default_season(frequency or "")
        notes.append(
            f"season {season}: the series repeats every {season} steps"
            if season > 1
            else "no season: " + ("the data is too short to show one" if few else "the series does not repeat")
        )
    horizon = data.horizon or default_horizon(frequency or "", season, longest)
    least = 2 * horizon + 2
    if longest < least:
        cut = "" if data.test is None or data.files("test") else " before the test part"
        what = f"horizon = {horizon}, and the longest series has {counted(longest, 'step')}{cut}"
        cure = f"lower data.horizon, or give at least {least} steps: two horizons and two more"
        raise DataError(what, where=first.place, cure=cure)
    train = longest if data.files("valid") else longest - valid_steps(longest, longest, data, horizon)
    history = data.history or default_history(season, horizon, train)
    for name, steps in (("season", season), ("history", history)):
        if steps > longest:
            what = f"is more than the {counted(longest, 'step')} of the longest series"
            raise ConfigError(what, where=f"data.{name} = {steps}", cure="lower it")
    step = f"a step is {frequency} of {first.columns[1]}" if frequency else "in the order of the rows"
    step += " in UTC" * first.utc
    notes.append(f"forecasts {counted(horizon, 'step')} of {listed(found['target'])} from the last {history:,}, {step}")
    seconds = max(int(record.seconds(record.end, 1)[0]) - record.start for record in records)
    cycles = find_cycles(frequency or "", seconds) if first.frequency else []
    found |= {"season": season, "horizon": horizon, "history": history, "calendar": cycles}
    return {name: value for name, value in found.items() if value is not None}, notes


def find_categories(records: Sequence[Series]) -> dict[str, list[str]]:
    """The texts of each static column that holds texts, in the order of the alphabet."""
    found: dict[str, set[str]] = {}
    for record in records:
        for column, text in record.categories:
            found.setdefault(column, set()).update({text} - {""})
    return {column: sorted(texts) for column, texts in found.items()}


def listed(names: Sequence[str]) -> str:
    """Names with commas; of many the first ones, and how many there are besides."""
    more = len(names) - MAX_NAMES
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:MAX_NAMES])} and {more} more"


def check_numbers(records: Sequence[Series], part: str = "") -> None:
    """Raise where no series says anything in a part of it, and where two have one name."""
    if not any(teaches(record) and not is_constant(record) for record in records):
        first = records[0]
        values = first.target[first.observed]
        within, cure = f" in {part}" * bool(part), "there is nothing to learn; leave it out"
        what = (
            f"is constant{within}: every value is {values[0]:g}" if len(values) else f"all values are missing{within}"
        )
        if not len(values):
            cure = "leave it out, or choose data.target"
        elif len(values) == 1:
            what, cure = f"has a single value{within}", "a forecast needs a past to learn from"
        raise DataError(what, where=f'{first.place}: series "{first.name}"', cure=cure)
    names = [record.name for record in records]
    if len(set(names)) < len(names):
        double = next(name for name in names if names.count(name) > 1)
        raise DataError(f'two series have the name "{double}"', where=records[0].place, cure="rename one of them")


def teaches(record: Series) -> bool:
    """Whether a series has a value to forecast and one before it."""
    return int(record.observed.sum()) > 1


def is_constant(record: Series) -> bool:
    """Whether the values of a series never differ, or there are none."""
    values = record.target[record.observed]
    return not len(values) or bool(values.min() == values.max())


def notes_on_values(records: Sequence[Series]) -> list[str]:
    """Notes on the series that say little in their training parts."""
    mute = [record.name for record in records if not teaches(record)]
    flat = [record.name for record in records if teaches(record) and is_constant(record)]
    notes = [f"not trained on {listed(mute)}: fewer than two values in the training part"] if mute else []
    return notes + ([f"constant in the training part: {listed(flat)}; learned, but left out of MASE"] if flat else [])


def default_horizon(frequency: str, season: int, longest: int) -> int:
    """The usual horizon of a frequency, a season where the steps are numbered; not more than an eighth of the data."""
    count, unit = read_frequency(frequency) if frequency else (1, "step")
    usual = season if unit == "step" and 1 < season <= 60 else max(1, HORIZONS[unit] // count)
    return max(1, min(usual, longest // 8))


def default_history(season: int, horizon: int, train: int) -> int:
    """As many seasons as fit three times into the training part, two at least, and twice the horizon."""
    seasons = min(MAX_SEASONS, max(2, train // (3 * season)))
    wanted = min(max(seasons * season if season > 1 else 0, 2 * horizon, MIN_HISTORY), MAX_HISTORY)
    return max(1, min(max(wanted, min(season, MAX_HISTORY)), train - horizon))


def part_steps(part: Any, length: int) -> int:
    """The steps of a series of this length that a share or a number of steps cuts off its end; 0 for files."""
    return round(part * length) if isinstance(part, float) else part if isinstance(part, int) else 0


def test_steps(length: int, data: ForecastData) -> int:
    """The steps at the end of a series that are its test part: at least a horizon, where that is known."""
    steps = part_steps(data.test, length)
    return max(steps, data.horizon or 1) if isinstance(data.test, float) else steps


def valid_steps(length: int, before: int, data: ForecastData, horizon: int) -> int:
    """The steps of a series that are set aside for validation, of those before the test part: at least a horizon.

    Where no setting says how many they are, a training window must remain, and a series without as many has none.
    """
    if data.files("valid"):
        return 0
    if data.valid is not None:
        steps = part_steps(data.valid, length)
        return max(steps, horizon) if isinstance(data.valid, float) else steps
    steps = min(max(horizon, round(VALID_SHARE * before)), max(0, before - horizon - 2))
    return steps if steps >= horizon else 0


def evaluation_origins(record: Series, data: Any, *, rolling: int | None, most: int) -> range:
    """The first steps of the forecasts of a series: of `rolling` horizons at its end, or of all, at most so many."""
    history, horizon, _ = data.lengths
    last = record.end - horizon
    if record.origin and last < record.origin:  # a part that is shorter than a horizon: as much of it as there is
        return range(record.origin, record.origin + (record.end > record.origin))
    if last < 1:
        return range(0)
    if rolling is not None:
        first = last - (rolling - 1) * horizon
        if first < 1:
            what = f"{rolling} horizons of {horizon} steps do not fit into the {record.end:,} steps of {record.name}"
            raise DataError(what, where=record.place or "--backtest", cure=f"at most {(record.end - 1) // horizon}")
        return range(first, last + 1, horizon)
    first = record.origin or min(history, last)
    count = max(1, last - first + 1)
    step = -(-count // most)
    # Counted from the end, so that the last horizon is always among them.
    return range(last - (count - 1) // step * step, last + 1, step)


def observed_windows(steps: np.ndarray[Any, Any], history: int, horizon: int) -> np.ndarray[Any, Any]:
    """targets (T,) with NaN where they are missing -> the first step of each window with a value in both its parts."""
    real = np.concatenate([[0], np.cumsum(~np.isnan(steps))])
    first = np.arange(max(0, len(steps) - history - horizon + 1))
    middle = first + history
    return first[(real[middle] > real[first]) & (real[middle + horizon] > real[middle])]
