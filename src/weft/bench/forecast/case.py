"""A case of the forecast benchmark: the series of a file, cut in time, and the contenders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from weft.data.series import Series
from weft.errors import ConfigError, did_you_mean
from weft.metrics.forecast import seasonal_error
from weft.run.prepare import read_divided
from weft.tasks import Tree
from weft.tasks.forecast_data import is_constant

PACKAGES: Final[Mapping[str, str | None]] = {
    "weft": None,
    "lstm": "neuralforecast",
    "deepar": "neuralforecast",
    "seasonal_naive": None,
}
"""The contenders, and the package that each needs."""

DEFAULT_TEST: Final = 0.2
"""The share of each series that is forecast."""

LEVELS: Final = (0.1, 0.9)
"""The quantiles of the interval whose coverage is measured."""


class Window(NamedTuple):
    """A forecast to make: the number of its series, the first step to forecast, and the truth (H,)."""

    series: int
    origin: int
    truth: NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class ForecastCase:
    """The series of a file as a whole and their first test steps, the settings found in the part before, and windows
    in the test part that all contenders forecast."""

    name: str
    series: tuple[Series, ...]
    settings: Tree
    windows: tuple[Window, ...]
    stride: int
    """The steps between two windows of a series, each of which has as many as the others."""
    seconds: float | None
    repeats: int

    @property
    def horizon(self) -> int:
        return int(self.settings["horizon"])

    @property
    def season(self) -> int:
        return int(self.settings["season"])

    def train(self) -> list[Series]:
        """The part of each series before the test, for training and validation."""
        return [replace(one.window(0, one.origin), origin=0) for one in self.series]

    def errors(self) -> NDArray[np.float64]:
        """The seasonal naive error of each series before its test part: the unit of MASE; NaN for a constant series."""
        return np.array(
            [np.nan if is_constant(one) else seasonal_error(one.target, self.season) for one in self.train()]
        )

    def describe(self) -> str:
        """The line above a table: what is forecast."""
        values = len(self.windows) * self.horizon
        return (
            f"{self.name}: {len(self.series)} series, season {self.season}, horizon {self.horizon}; "
            f"{len(self.windows):,} windows of the test part, {values:,} values"
            + ("" if self.seconds is None else f"; each training at most {self.seconds:g} s")
        )


def plan_forecast(
    file: str,
    data: Mapping[str, Any] | None = None,
    *,
    windows: int = 100,
    seconds: float | None = None,
    repeats: int = 15,
) -> ForecastCase:
    """Read a file and choose the windows to forecast; `data` are settings of `[data]`."""
    own = {"test": DEFAULT_TEST, **(data or {})}
    for name in ("train", "valid"):
        if name in own:
            raise ConfigError("the benchmark divides each file by itself", where=f"data.{name}", cure="remove it")
    if not isinstance(own["test"], int | float):
        raise ConfigError("is no share or number of steps", where="data.test", cure="the end of each file is the test")
    config, _, parts = read_divided({"task": "forecast", "data": {"train": file, **own}})
    series = cast(tuple[Series, ...], tuple(parts["test"]))
    settings = config.data.model_dump(mode="json", exclude={"train", "valid", "test"})
    horizon = int(settings["horizon"])
    tested = [one.end - one.origin - horizon + 1 for one in series]
    stride = -(-max(tested) // max(1, windows // len(series)))
    count = (min(tested) - 1) // stride + 1
    found = [
        Window(number, origin, one.target[origin : origin + horizon])
        for number, one in enumerate(series)
        for origin in range(one.end - horizon - (count - 1) * stride, one.end - horizon + 1, stride)
    ]
    return ForecastCase(
        name=file,
        series=series,
        settings=settings,
        windows=tuple(found),
        stride=stride,
        seconds=seconds,
        repeats=repeats,
    )


def check_contenders(names: Sequence[str]) -> tuple[str, ...]:
    """The contenders by their names, all by default."""
    for name in names:
        if name not in PACKAGES:
            cure = did_you_mean(name, PACKAGES)
            raise ConfigError(f'"{name}" is not a contender', where="--contender", cure=cure)
    return tuple(dict.fromkeys(names)) or tuple(PACKAGES)


def installed(contenders: Sequence[str]) -> tuple[list[str], list[str]]:
    """The contenders whose package is installed, and a remark for each other one."""
    missing = [who for who in contenders if (package := PACKAGES[who]) and find_spec(package) is None]
    lines = [
        f"without {who}: the package {PACKAGES[who]} is not installed (pip install {PACKAGES[who]})" for who in missing
    ]
    return [who for who in contenders if who not in missing], lines


def versions(contenders: Sequence[str]) -> dict[str, str]:
    """The versions of the packages that take part."""
    packages = dict.fromkeys(package for who in contenders if (package := PACKAGES[who]))
    return {package: version(package) for package in packages}
