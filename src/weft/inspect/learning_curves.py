"""The view `curves`: is it learning, and which run is better? Loss and scores over the updates, of one run or more."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

from rich.text import Text

from weft.charts import Table
from weft.errors import RunError
from weft.inspect.terminal import colour, shade
from weft.inspect.view import Nothing, Option, View, ViewKind
from weft.metric_text import metric_name, show_metric
from weft.run import Run
from weft.run.curves import Curve, chart, own_metric, read_curve
from weft.run.folder.files import JOURNAL, MANIFEST

MAX_RUNS: Final = 8
"""Runs in one picture; more have no colours of their own."""


@dataclass(frozen=True)
class LearningCurves(View):
    """The journals of some runs, by their names."""

    curves: dict[str, Curve]
    metric: str
    untrained: tuple[str, ...] = ()
    """Runs that were asked for and have no curves: not trained in updates, or imported."""
    log: bool = False
    smooth: float = 0.0

    name: ClassVar[str] = "curves"

    @property
    def title(self) -> str:
        return "Learning curves"

    @property
    def summary(self) -> str:
        return (
            "The loss of training and validation, and the validation metric that chooses the model, over the updates. "
            "A validation loss that rises while that of training falls means that the model learns its data by heart. "
            "Dropout and label smoothing raise the loss of training alone."
        ) + "".join(f" {note}" for note in self.notes)

    @property
    def notes(self) -> list[str]:
        """Sentences on what is left out: runs without curves, and runs that did not measure the metric."""
        found = [f"{name} has no curves: it was not trained in updates here." for name in self.untrained]
        shown = metric_name(self.metric).replace("_", " ")
        for name, curve in self.curves.items():
            if self.metric not in curve.metrics:
                measured = ", ".join(metric for metric in curve.metrics if metric != "loss")
                why = (
                    f"it measured {measured}; the option metric chooses"
                    if measured
                    else "it has no validation of it yet"
                )
                found.append(f"{name} is left out of validation {shown}: {why}.")
        return found

    @property
    def picture_note(self) -> str:
        return " ".join(self.notes)

    def to_dict(self) -> dict[str, Any]:
        return {
            "metric": self.metric,
            "runs": {
                name: {
                    "train": [[step, _finite(loss)] for step, loss in curve.train],
                    "valid": [
                        [step, {metric: _finite(value) for metric, value in scores.items()}]
                        for step, scores in curve.valid
                    ],
                }
                for name, curve in self.curves.items()
            },
        }

    def chart(self) -> Any:
        several = len(self.curves) > 1
        shown = self.curves if several else {"": next(iter(self.curves.values()))}
        return chart(shown, metric=self.metric, log=self.log, smooth=self.smooth)

    def table(self) -> Table:
        rows: list[tuple[str | float | int, ...]] = [
            (name, step, *(scores.get(metric, math.nan) for metric in self._metrics()))
            for name, curve in self.curves.items()
            for step, scores in curve.valid
        ]
        return Table(("run", "update", *self._metrics()), rows)

    def _metrics(self) -> list[str]:
        return list(dict.fromkeys(metric for curve in self.curves.values() for metric in curve.metrics))

    def lines(self, width: int) -> list[Text]:
        left, most = max(map(len, self.curves)), max(8, width - max(map(len, self.curves)) - 30)
        found = []
        for title, lines in self._parts().items():
            found.append(Text(title, style="bold"))
            known = [value for values, _ in lines.values() for value in values if math.isfinite(value)]
            low, high = (min(known), max(known)) if known else (0.0, 1.0)
            for name, (points, metric) in lines.items():
                text = Text(f"{name:>{left}}  ")
                for value in _last(points, most):
                    share = (value - low) / (high - low) if high > low and math.isfinite(value) else 0.0
                    text.append(shade(0.2 + 0.8 * share), style=colour(share))
                text.append(f"  {show_metric(metric, points[0])} → {show_metric(metric, points[-1])}")
                found.append(text)
        return found + [Text(note) for note in self.notes]

    def _parts(self) -> dict[str, dict[str, tuple[list[float], str]]]:
        """Return the lines of each heading by their runs, each with its metric; only those that have points."""
        training = {name: ([loss for _, loss in curve.train], "loss") for name, curve in self.curves.items()}
        parts = {"training loss": training}
        for metric in dict.fromkeys(("loss", self.metric)):
            parts[f"validation {metric_name(metric)}"] = {
                name: ([scores.get(metric, math.nan) for _, scores in curve.valid], metric)
                for name, curve in self.curves.items()
                if metric in curve.metrics
            }
        kept = {title: {name: line for name, line in lines.items() if line[0]} for title, lines in parts.items()}
        return {title: lines for title, lines in kept.items() if lines}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _last(values: Sequence[float], most: int) -> list[float]:
    each = -(-len(values) // most) if values else 1
    return list(values[each - 1 :: each])


def curves(
    runs: Run | str | Path | Sequence[Run | str | Path],
    *,
    metric: str | None = None,
    log: bool = False,
    smooth: float = 0.0,
) -> LearningCurves | Nothing:
    """Return the learning curves of a run, also of one that is still in training, or of several side by side.

    In the picture, `log` makes the axis of the loss logarithmic. With `smooth`, from 0 to 0.99, the loss of training is
    a running mean, and a fainter line behind it has what was measured.
    """
    given = list(runs) if isinstance(runs, Sequence) and not isinstance(runs, str) else [runs]
    if not 1 <= len(given) <= MAX_RUNS:
        raise RunError(f"{len(given)} runs cannot be drawn together", where="curves", cure=f"from 1 to {MAX_RUNS}")
    folders = [run.folder if isinstance(run, Run) else Path(run) for run in given]
    # An imported model was not trained here and has no journal; that of one that counts has a single validation.
    trained = [folder for folder in folders if (folder / JOURNAL).exists() or not (folder / MANIFEST).exists()]
    found = {str(folder): read_curve(folder) for folder in trained}
    found = {name: curve for name, curve in found.items() if curve.metrics or curve.train}
    if not any(curve.train or len(curve.valid) > 1 for curve in found.values()):
        return Nothing("curves", "the model was not trained in updates, or has only begun")
    first = next((folder for folder in trained if str(folder) in found and found[str(folder)].metrics), None)
    own = "loss" if first is None else own_metric(first, found[str(first)])  # a first epoch has no validation yet
    untrained = tuple(str(folder) for folder in folders if str(folder) not in found)
    return LearningCurves(found, metric or own, untrained, log, smooth)


KIND: Final = ViewKind(
    "curves",
    "Is it learning, and which run is better?",
    curves,
    takes_text=False,
    options={
        "log": Option("bool", False, "logarithmic loss"),
        "smooth": Option("float", 0.0, "smooth the training loss", 0.0, 0.99),
        "metric": Option("text", None, "validation metric"),
    },
)
