"""Heat maps over the tokens of a text: a row for each unit, and long texts in several lines like a page of print."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.charts import MAGNITUDE, SIGNED, row_data, token_axis, token_keys
from weft.charts.tokens import DIGITS, token_step

if TYPE_CHECKING:
    pass

LINE_PIXELS: Final = 740
"""The width of a line of tokens; a longer text continues on the next one."""

ROW_PIXELS: Final = 14
MAX_CELLS: Final = 8_000
"""Cells of a heat map: what a browser draws at once. The data has all of them."""


MAX_POINTS: Final = 500
"""Points of a line; each is the mean of some tokens where there are more of them."""


def rows_that_fit(tokens: int, wanted: int) -> int:
    """The number of rows of a heat map over so many tokens, at most `wanted`."""
    return max(1, min(wanted, MAX_CELLS // max(1, tokens)))


def heat_chart(
    values: NDArray[np.float32],
    rows: Sequence[str],
    tokens: Sequence[str],
    *,
    title: str,
    signed: bool,
    limit: float = 1.0,
) -> Any:
    """values (R, T) -> an altair chart: a heat map, with tokens above each line.

    Values go from 0 to `limit`, or with `signed` from -limit.
    """
    import altair

    step = token_step(tokens)
    per_line = max(1, int(LINE_PIXELS / step))
    keys = token_keys(tokens)
    # A row of data for each token; Vega-Lite makes a cell of each of its numbers.
    data = [
        {"token": key, "line": place // per_line, **{f"v{row}": _plain(value) for row, value in enumerate(column)}}
        for place, (key, column) in enumerate(zip(keys, values.T, strict=True))
    ]
    scale = altair.Scale(scheme=SIGNED if signed else MAGNITUDE, domain=[-limit if signed else 0, limit], clamp=True)
    chart = (
        altair.Chart(row_data(data))
        .transform_fold([f"v{row}" for row in range(len(rows))], as_=["field", "value"])
        .transform_calculate(
            row=f"{json.dumps(list(rows))}[toNumber(slice(datum.field, 1))]", text=f"slice(datum.token, {DIGITS})"
        )
        .mark_rect()
        .encode(
            x=altair.X("token:N", axis=token_axis(orient="top")),
            y=altair.Y("row:N", sort=list(rows), title=None, axis=altair.Axis(ticks=False, domain=False)),
            color=altair.Color("value:Q", scale=scale, title=title),
            tooltip=[
                altair.Tooltip("row:N", title="row"),
                altair.Tooltip("text:N", title="token"),
                altair.Tooltip("value:Q", format=".3f"),
            ],
        )
        .properties(width=altair.Step(step), height=altair.Step(ROW_PIXELS))
    )
    if len(tokens) <= per_line:
        return chart
    lines = altair.Row("line:O", header=altair.Header(title=None, labels=False))
    return chart.facet(row=lines).resolve_scale(x="independent")


def line_chart(
    values: NDArray[np.float32], names: Sequence[str], tokens: Sequence[str], *, title: str, height: int = 120
) -> Any:
    """values (R, T) -> an altair chart: a line for each row over the tokens, or over places if they do not fit."""
    import altair

    step = token_step(tokens)
    fits = len(tokens) * step <= LINE_PIXELS
    keys = token_keys(tokens)
    every = 1 if fits else -(-len(tokens) // MAX_POINTS)
    data = [
        {"token": keys[place], "place": place + 1, "name": name, "value": _plain(row[place : place + every].mean())}
        for name, row in zip(names, values, strict=True)
        for place in range(0, len(tokens), every)
    ]
    x = (
        altair.X("token:N", axis=token_axis(orient="bottom"), scale=altair.Scale(padding=0.5))
        if fits
        else altair.X("place:Q", title="position")
    )
    return (
        altair.Chart(row_data(data))
        .transform_calculate(text=f"slice(datum.token, {DIGITS})")
        .mark_line(point=fits)
        .encode(
            x=x,
            y=altair.Y("value:Q", title=title),
            color=altair.Color("name:N", sort=list(names), title=None),
            tooltip=["name:N", "text:N", altair.Tooltip("value:Q", format=".3f")],
        )
        .properties(width=altair.Step(step) if fits else LINE_PIXELS, height=height)
    )


def _plain(value: float) -> float | None:
    """A number with the digits that a colour shows, or None where there is none."""
    return round(float(value), 3) if np.isfinite(value) else None
