"""The picture of forecasts: the history, the forecast after it, and the interval between its outer quantiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from weft.charts import CATEGORIES
from weft.errors import counted
from weft.tasks.forecast_answer import SeriesForecast

if TYPE_CHECKING:
    import altair

MAX_PANELS: Final = 12
"""Series that are drawn; more would be too small to read."""

HISTORY_HORIZONS: Final = 6
"""Horizons of history that are drawn before a forecast."""

COLOUR, INK = CATEGORIES[0], CATEGORIES[-1]


def draw_forecasts(answers: Sequence[SeriesForecast]) -> altair.VConcatChart:
    """A panel for each of the first series; a title says how many there are besides."""
    import altair

    if not answers:
        return altair.vconcat()
    panels = [_panel(answer) for answer in answers[:MAX_PANELS]]
    whole: altair.VConcatChart = altair.vconcat(*panels, spacing=24).configure_axisX(grid=False)
    if len(answers) > MAX_PANELS:
        whole = whole.properties(title=f"The first {MAX_PANELS} of {len(answers):,} series")
    return whole


def _panel(answer: SeriesForecast) -> Any:
    import altair

    points = list(points_of(answer))
    if "time" in points[0]:
        x = altair.X("time:T", title=None, scale=altair.Scale(nice=False))
    else:
        x = altair.X(
            "step:Q",
            title=None,
            scale=altair.Scale(nice=False, zero=False),
            axis=altair.Axis(format="d", tickMinStep=1),
        )
    levels = list(answer.quantiles)
    base = altair.Chart(altair.InlineData(values=points), title=answer.series)
    scale = altair.Scale(zero=False, nice=True)
    band = base.transform_filter("isValid(datum.low)").mark_area(color=COLOUR, opacity=0.22)
    lines = (
        base.transform_filter(f"isValid(datum.{name})")
        .mark_line(color=colour, strokeWidth=1.8, interpolate="linear")
        .encode(x=x, y=altair.Y(f"{name}:Q", title=None, scale=scale))
        for name, colour in (("value", INK), ("forecast", COLOUR))
    )
    share = f"{100 * (levels[-1] - levels[0]):.0f}% interval"
    title = f"{answer.series}: {counted(len(answer.values), 'step')} from {answer.times[0]} on, {share}"
    layers = [band.encode(x=x, y=altair.Y("low:Q", title=None, scale=scale), y2="high:Q"), *lines]
    return altair.LayerChart(layer=layers, title=title).properties(width=680, height=220)


def points_of(answer: SeriesForecast) -> Iterator[dict[str, Any]]:
    """A point for each observed step of the history, and for each step of the forecast, which starts at the last.

    Where there are no dates, `step` is the number that the table of forecasts has too.
    """
    low, *_, high = answer.quantiles.values() if len(answer.quantiles) > 1 else (answer.values, answer.values)
    past = answer.history
    if past is not None:
        values, times = past.target, past.times(0, len(past.steps))
        known = np.flatnonzero(past.observed)
        for step in known[-HISTORY_HORIZONS * len(answer.values) :].tolist():
            value = float(values[step])
            last = {"forecast": value, "low": value, "high": value} if step == known[-1] else {}
            yield {**_place(times[step]), "value": value, **last}
    for step, time in enumerate(answer.times):
        numbers = {"forecast": answer.values[step], "low": low[step], "high": high[step]}
        yield {**_place(time), **numbers}


def _place(time: str) -> dict[str, Any]:
    """The place of a step on the axis: its date, or its number."""
    return {"step": int(time)} if time.lstrip("-").isdecimal() else {"time": full_date(time)}


def full_date(time: str) -> str:
    """A month as its first day, which every reader of dates understands; a time in UTC without the mark, by which it
    would be shown in another zone than in the table."""
    return f"{time}-01" if len(time) == 7 and time[4] == "-" else time.removesuffix("Z")
