"""The sums of an evaluation of forecasts, with those of naive forecasts of the same steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from weft.errors import counted
from weft.metrics import LossTally
from weft.metrics.forecast import POINT_SUMS, SUMS, Numbers, forecast_metrics
from weft.tasks.results import Scores
from weft.tasks.sections import Tree

BASELINES: Final = ("naive", "seasonal_naive", "drift")
"""The simple forecasts that stand beside every evaluation."""


@dataclass
class ForecastScores(Scores):
    """Sums over observed values of the forecasts, and of each baseline; the loss in units of each series."""

    levels: tuple[float, ...] = (0.0, 1.0)
    windows: int = 0
    trained_on: int = 0
    """Windows whose forecast begins within the training data."""
    own: Numbers = field(default_factory=lambda: np.zeros(len(SUMS)))
    simple: Numbers = field(default_factory=lambda: np.zeros((len(BASELINES), POINT_SUMS)))
    loss: LossTally = field(default_factory=LossTally)

    def add(self, own: Sequence[float], simple: Sequence[Numbers], loss: float, windows: int) -> None:
        """Add the sums of some windows."""
        self.own, self.simple = self.own + np.array(own), self.simple + np.stack(simple)
        self.loss.add(loss, int(own[0]))
        self.windows += windows

    def merge(self, other: ForecastScores) -> None:
        self.levels = other.levels
        self.windows += other.windows
        self.trained_on += other.trained_on
        self.own, self.simple = self.own + other.own, self.simple + other.simple
        self.loss.merge(other.loss)

    def sums(self) -> Numbers:
        return np.concatenate([self.own, [self.loss.total]])

    def score(self, sums: Numbers) -> dict[str, float]:
        if not sums[0]:
            return {}
        return {**forecast_metrics(sums[: len(SUMS)]), "loss": float(sums[-1] / sums[0])}

    def baselines(self) -> dict[str, dict[str, float]]:
        """The metrics of each baseline."""
        return {name: forecast_metrics(sums) for name, sums in zip(BASELINES, self.simple, strict=True)}

    def details(self) -> Tree:
        share = self.levels[-1] - self.levels[0]
        count, compared = int(self.own[0]), int(self.own[SUMS.index("compared")])
        constant = f"{count - compared:,} of {counted(count, 'value')} from MASE: their series are constant in training"
        warning = (
            f"{self.trained_on:,} of the {counted(self.windows, 'forecast window')} "
            f"{'lies' if self.trained_on == 1 else 'lie'} in the training data: these scores flatter the model"
        )
        return {
            **({"warning": warning} if self.trained_on else {}),
            **({"left_out": constant} if compared < count else {}),
            "count": count,
            "count_of": "values",
            "windows": self.windows,
            "shown": ["mase", "mae", "rmse", "smape", "quantile_loss", "coverage"],
            "interval": f"from {self.levels[0]:g} to {self.levels[-1]:g}, which is to cover {100 * share:.0f}%; "
            f"{counted(count, 'value')} in {counted(self.windows, 'window')}",
            "baselines": self.baselines(),
        }
