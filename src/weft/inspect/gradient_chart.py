"""The chart of gradient norms: a panel for each part of a model, a line for each layer, on a logarithmic axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from weft.charts import CATEGORIES, readable, row_data, token_axis, token_keys
from weft.charts.tokens import POWER_LABEL, token_step

if TYPE_CHECKING:
    from weft.inspect.gradient_flow import FlowLine

MAX_LABELLED, MAX_POINTS = 600, 500
"""Tokens that are labels of the chart, and points of a line of more tokens: each is the largest norm of some."""

MAX_POWERS: Final = 9
"""Labels of the logarithmic axis."""

SMALLEST: Final = 1e-300
"""Norms below this are drawn as gaps: zero has no place on a logarithmic axis."""


def neighbours(positions: int) -> int:
    """The number of positions of which one is drawn."""
    return -(-positions // MAX_POINTS) if positions > MAX_LABELLED else 1


def describe_peaks(positions: int) -> str:
    """Return the sentence on a text that is too long for a point at each token."""
    every = neighbours(positions)
    return f" The text is long: a point is the largest norm of {every} neighbours." if every > 1 else ""


def draw_panel(lines: Sequence[FlowLine], part: str) -> Any:
    """Return the chart of some lines over the same positions, named by their part."""
    import altair

    tokens = max((line.positions for line in lines), key=len)
    # A label for each of thousands of tokens takes a browser seconds: a long text has a scale of positions.
    every = neighbours(len(tokens))
    steps = every > 1 or all(token.isdecimal() for token in tokens)
    keys = [] if steps else token_keys(tokens)
    rows: list[dict[str, Any]] = []
    for line in lines:
        for kind, values in (("norm", line.norms), ("bound", line.bound)):
            rows += [
                {
                    "x": step + 1 if steps else keys[step],
                    "value": max(values[step : step + every]),
                    "line": line.name,
                    "kind": kind,
                    "token": readable(tokens[step]),
                }
                for step in range(0, len(values), every)
                if SMALLEST < max(values[step : step + every]) < math.inf
            ]
    shown = [row["value"] for row in rows if row["kind"] == "norm"]
    floor, top = (min(shown), max(shown)) if shown else (1e-3, 1.0)
    # A bound may grow beyond all norms: a part of it is enough.
    rows = [row for row in rows if row["kind"] == "norm" or row["value"] <= top * 1e6]
    top = max((row["value"] for row in rows), default=top)
    low, high, powers = _powers_of_ten(floor / 2, top * 2)
    x: Any
    if steps:
        x = altair.X(
            "x:Q", title="position" if every > 1 else "step", scale=altair.Scale(domain=[1, len(tokens)], nice=False)
        )
    else:
        x = altair.X("x:O", title=None, axis=token_axis(title=None), sort=keys)
    names = [line.name for line in lines]
    base = altair.Chart(row_data(rows)).encode(
        x=x,
        y=altair.Y(
            "value:Q",
            title="‖∂L/∂h_t‖",
            scale=altair.Scale(type="log", domain=[low, high]),
            axis=altair.Axis(labelExpr=POWER_LABEL, values=powers),
        ),
        color=altair.Color(
            "line:N",
            sort=names,
            scale=altair.Scale(domain=names, range=_colours(len(names))),
            legend=altair.Legend(title=None, orient="top"),
        ),
        tooltip=["line:N", "token:N", altair.Tooltip("value:Q", format=".3e"), "kind:N"],
    )
    dashes = altair.Scale(domain=["norm", "bound"], range=[[1, 0], [5, 4]])
    legend = altair.Legend(title=None, orient="top") if any(line.bound for line in lines) else None
    base = base.encode(strokeDash=altair.StrokeDash("kind:N", scale=dashes, legend=legend))
    norms = base.transform_filter("datum.kind == 'norm'").mark_line(point=not steps, strokeWidth=2)
    bounds = base.transform_filter("datum.kind == 'bound'").mark_line(strokeWidth=1.4, clip=True)
    width = 640 if steps else max(320, min(len(tokens), 400) * token_step(tokens))
    return altair.layer(norms, bounds, title=part).properties(width=width, height=260)


def _powers_of_ten(low: float, high: float) -> tuple[float, float, list[float]]:
    """Return the ends of a logarithmic axis with at least two powers of ten, and those that have labels."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    if last - first < 1:
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
        low, high = min(low, 10.0**first), max(high, 10.0**last)
    every = -(-(last - first + 1) // MAX_POWERS)
    return low, high, [10.0**power for power in range(first, last + 1) if power % every == 0]


def _colours(count: int) -> list[str]:
    return [CATEGORIES[number % len(CATEGORIES)] for number in range(count)]
