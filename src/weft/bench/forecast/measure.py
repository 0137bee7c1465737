"""Trains the contenders of the forecast benchmark one after the other, scores their forecasts, and times one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from weft.bench.forecast.case import LEVELS, ForecastCase, installed
from weft.bench.forecast.contenders import Forecasting, Forecasts, build_contender
from weft.bench.table import NOTHING
from weft.bench.timing import Contender, time_in_turn
from weft.metrics.forecast import forecast_metrics, point_sums, quantile_sums


@dataclass(frozen=True)
class ForecastFigures:
    """One contender on one file. Coverage is the share of values in its 80% interval, if it has one; training counts
    all that it does from numbers to a model; predict is the time of one forecast of one series."""

    file: str
    who: str
    mase: float
    coverage: float | None
    updates: int
    training_seconds: float
    predict_seconds: float

    def tree(self) -> dict[str, Any]:
        """The JSON form."""
        names = {"file": self.file, "contender": self.who}
        return names | {name: value for name, value in vars(self).items() if name not in ("file", "who")}


class ForecastOutcome(NamedTuple):
    """The figures, and remarks on them for the reader."""

    rows: list[ForecastFigures]
    remarks: list[str]


def measure_forecast(
    cases: Sequence[ForecastCase], contenders: Sequence[str], *, progress: Callable[[str], None] = lambda text: None
) -> ForecastOutcome:
    """Train and measure all contenders that are installed on each file."""
    present, remarks = installed(contenders)
    rows: list[ForecastFigures] = []
    for case in cases:
        trained: dict[str, Forecasting] = {}
        costs: dict[str, tuple[int, float]] = {}
        for who in present:
            progress(f"{case.name}: {who}")
            trained[who] = build_contender(who, case)
            began = time.perf_counter()
            updates = trained[who].fit()
            costs[who] = updates.made, time.perf_counter() - began
            if updates.planned is not None and updates.made < updates.planned:
                early = f"was stopped after {updates.made:,} of {updates.planned:,} updates"
                remarks.append(f"{case.name}: {who} {early}, so its scores are not those of its defaults")
        progress(f"{case.name}: forecasts")
        calls = {who: Contender(one.forecast_one) for who, one in trained.items()}
        seconds = time_in_turn(calls, rounds=case.repeats, device=torch.device("cpu"))
        for who, one in trained.items():
            mase, coverage = score(case, one.forecast())
            rows.append(ForecastFigures(case.name, who, mase, coverage, *costs[who], seconds[who]))
    return ForecastOutcome(rows, remarks)


def score(case: ForecastCase, found: Forecasts) -> tuple[float, float | None]:
    """The MASE of forecasts of all windows of a case, and the coverage of their intervals."""
    gold = np.stack([window.truth for window in case.windows])
    errors = case.errors()[[window.series for window in case.windows]]
    sums = point_sums(gold, found.point, errors)
    if found.low is None or found.high is None:
        return forecast_metrics(sums)["mase"], None
    bounds = quantile_sums(gold, np.stack([found.low, found.high], axis=-1), LEVELS)
    metrics = forecast_metrics([*sums, *bounds])
    return metrics["mase"], metrics["coverage"]


def tabulate_forecast(rows: Sequence[ForecastFigures]) -> tuple[list[str], list[list[str]]]:
    """Return headings and lines."""
    lines = [
        [
            row.file,
            row.who,
            f"{row.mase:.3f}",
            NOTHING if row.coverage is None else f"{100 * row.coverage:.0f}%",
            f"{row.updates:,}" if row.updates else NOTHING,
            f"{row.training_seconds:.1f}",
            f"{1000 * row.predict_seconds:.2f}",
        ]
        for row in rows
    ]
    return ["file", "contender", "MASE", "coverage", "updates", "training s", "predict ms"], lines
