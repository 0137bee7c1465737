"""Learning curves: a chart made from the journals of runs.

The picture has two parts side by side: the loss of training and validation, and the validation metric of the task.
With several runs each has its colour; the loss of training is then the faint line of the same colour.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.catalog import TASKS
from weft.charts import CATEGORIES, can_draw, draw
from weft.disk import open_regular
from weft.documents import parse_json
from weft.errors import ConfigError, RunError, WeftError, did_you_mean
from weft.limits import JOURNAL_FILE_BYTES, JOURNAL_LINE_BYTES, JOURNAL_VALUES, STEP
from weft.metric_text import metric_name
from weft.run.folder.files import CONFIG, JOURNAL, read_table

if TYPE_CHECKING:
    import altair

CURVES = "curves.svg"

MAX_POINTS = 400
"""Points of one line at most; neighbours are averaged where there are more, which no screen can show apart."""


@dataclass(frozen=True)
class Curve:
    """The curves of a journal: the loss of training and the scores of each validation, by the number of the update."""

    train: list[tuple[int, float]]
    valid: list[tuple[int, dict[str, float]]]

    @property
    def metrics(self) -> list[str]:
        return list(self.valid[0][1]) if self.valid else []

    def smoothed(self, smooth: float) -> list[tuple[int, float]]:
        """Return the loss of training with each value a mean of those before it, whose weights fall by this factor:
        s_t = Σ_k smooth^k loss_{t-k} / Σ_k smooth^k."""
        total = weight = 0.0
        found = []
        for step, loss in self.train:
            if math.isfinite(loss):
                total, weight = smooth * total + loss, smooth * weight + 1
                found.append((step, total / weight))
        return found


def read_curve(folder: Path) -> Curve:
    """Read the journal of a run; a last line that was cut off is left out."""
    path = folder / JOURNAL
    train: list[tuple[int, float]] = []
    valid: list[tuple[int, dict[str, float]]] = []
    for number, line in _lines(path):
        try:
            event: dict[str, Any] = dict(parse_json(line, constants=True).items())
            if "valid" in event:
                valid.append((_step(event["step"]), {name: _number(value) for name, value in event["valid"].items()}))
            elif "loss" in event:
                train.append((_step(event["step"]), _number(event["loss"])))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise RunError("is not a line of a journal", where=f"{path}:{number}") from None
    return Curve(_thin(train), valid)


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the whole lines of a journal with their numbers; raise where a limit is exceeded."""
    number = values = 0
    try:
        with open_regular(path, most=JOURNAL_FILE_BYTES) as file:
            while (line := file.readline(JOURNAL_LINE_BYTES)).endswith(b"\n"):
                number, values = number + 1, values + max(8, line.count(b","))
                if values > JOURNAL_VALUES:
                    raise RunError(f"has more than {JOURNAL_VALUES:,} values", where=str(path))
                yield number, line
            if len(line) == JOURNAL_LINE_BYTES:
                what = f"is not a line of a journal: more than {JOURNAL_LINE_BYTES:,} bytes"
                raise RunError(what, where=f"{path}:{number + 1}")
    except OSError as error:
        what = f"cannot be read: {error.strerror or error}"
        raise RunError(what, where=str(path), cure="is it a run of weft?") from None


def _step(value: Any) -> int:
    """Return the number of an update; raise where it is none."""
    if type(value) is not int or not 0 <= value <= STEP:
        raise ValueError("not the number of an update")
    return value


def _number(value: Any) -> float:
    """Return a score; one that is not finite is stored as null, because JSON has no word for it."""
    if type(value) not in (int, float, type(None)):
        raise TypeError("not a number")
    return math.nan if value is None else float(value)


def _thin(points: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """Reduce a line to at most `MAX_POINTS`, each the mean of its neighbours."""
    if len(points) <= MAX_POINTS:
        return points
    parts = np.array_split(np.asarray(points), MAX_POINTS)
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is not drawn
        return [(round(float(step)), float(loss)) for step, loss in (part.mean(0) for part in parts)]


def draw_curves(folder: Path, note: Callable[[str], None] = lambda _: None) -> Path | None:
    """Draw `curves.svg` of the run in the folder; None where the extra is not installed or nothing was validated yet.

    None too where it cannot be drawn: `note` is called with the reason, and a training that ended well does not fail.
    """
    if not can_draw() or not (folder / JOURNAL).exists():
        return None
    try:
        curve = read_curve(folder)
        if not curve.valid:
            return None
        return draw(chart({"": curve}, metric=own_metric(folder, curve)), folder / CURVES)
    except WeftError as error:
        note(f"there is no picture of the learning curves: {error}")
        return None


def own_metric(folder: Path, curve: Curve) -> str:
    """Return the metric that chose the best model, as far as the files of the folder say."""
    if not curve.metrics:
        raise RunError("was never validated, so there is nothing to draw", where=str(folder), cure="train it longer")
    tree = read_table(folder / CONFIG)
    try:
        wanted, task = tree.get("train", {}).get("metric"), TASKS[tree["task"]]
    except (KeyError, TypeError, AttributeError):
        raise RunError("is not the configuration of a run", where=str(folder / CONFIG)) from None
    name = wanted or task.own_metric(curve.metrics)
    return name if name in curve.metrics else curve.metrics[0]


def chart(curves: Mapping[str, Curve], *, metric: str, log: bool = False, smooth: float = 0.0) -> altair.HConcatChart:
    """Return the chart of runs by their names; a single one may have the name "".

    With `log` the axis of the loss is logarithmic. With `smooth`, from 0 to 0.99, the loss of training is a running
    mean, and a fainter line behind it has what was measured.
    """
    import altair

    if metric != "loss" and not any(metric in curve.metrics for curve in curves.values()):
        measured = list(dict.fromkeys(name for curve in curves.values() for name in curve.metrics))
        known = did_you_mean(metric, measured) if measured else "train it longer"
        raise ConfigError(
            f'"{metric}" was not measured in validation', where=next(iter(curves)) or "the run", cure=known
        )
    several = len(curves) > 1
    panels = [_panel(curves, "loss", several=several, log=log, smooth=smooth)]
    if metric != "loss":
        panels.append(_panel(curves, metric, several=several))
    whole: altair.HConcatChart = (
        altair.hconcat(*panels, spacing=28)
        .resolve_scale(color="shared" if several else "independent")
        .configure_axisX(grid=False)
        .configure_legend(orient="top", title=None, symbolType="stroke", symbolOpacity=1)
    )
    return whole


def _panel(
    curves: Mapping[str, Curve], metric: str, *, several: bool, log: bool = False, smooth: float = 0.0
) -> altair.LayerChart:
    """Return the chart of one metric: dots and a line for validation, and for the loss a fainter line of training."""
    import altair

    points: list[dict[str, Any]] = []
    for name, curve in curves.items():
        valid = [(step, scores[metric]) for step, scores in curve.valid if metric in scores]
        parts = {"validation": _thin(valid)}
        if metric == "loss":
            parts["training"] = curve.smoothed(smooth) if smooth else curve.train
            parts["as measured"] = curve.train if smooth else []
        points += [
            {"step": step, "value": value, "part": part, "run": name}
            for part, line in parts.items()
            for step, value in line
            if math.isfinite(value) and (value > 0 or not log)  # a perplexity may be too large to hold
        ]
    names = list(curves) if several else ["training", "validation"]
    colours = (
        [CATEGORIES[number % len(CATEGORIES)] for number in range(len(names))]
        if several
        else ["#9aa3ad", CATEGORIES[0]]
    )
    legend = altair.Legend() if several or metric == "loss" else None
    own = "loss (faint: training)" if several else "loss"
    title = own if metric == "loss" else f"validation {metric_name(metric).replace('_', ' ')}"
    scale = altair.Scale(type="log", nice=True) if log else altair.Scale(zero=False, nice=True)
    last = max(step for curve in curves.values() for step, _ in [*curve.train, *curve.valid])
    base = altair.Chart(altair.InlineData(values=points), title=title).encode(
        x=altair.X(
            "step:Q",
            title="update",
            scale=altair.Scale(domain=[0, last]),
            axis=altair.Axis(tickCount=5, tickMinStep=1, format=",d", titleFontWeight="normal"),
        ),
        y=altair.Y("value:Q", title=None, scale=scale),
        color=altair.Color(
            "run:N" if several else "part:N", scale=altair.Scale(domain=names, range=colours), legend=legend
        ),
        tooltip=["run:N", "part:N", "step:Q", altair.Tooltip("value:Q", format=".4f")],
    )
    training = base.transform_filter("datum.part == 'training'").mark_line(strokeWidth=1.2)
    training = training.encode(opacity=altair.value(0.4)) if several else training
    if smooth:
        measured = base.transform_filter("datum.part == 'as measured'").mark_line(strokeWidth=1)
        measured = measured.encode(opacity=altair.value(0.2 if several else 0.4))
        measured = measured if several else measured.encode(color=altair.value(colours[0]))
        training = measured + training
    validation = base.transform_filter("datum.part == 'validation'").mark_line(
        strokeWidth=2, point=altair.OverlayMarkDef(size=22)
    )
    layers = [training, validation] if metric == "loss" else [validation]
    return altair.LayerChart(layer=layers).properties(width=340, height=240)
