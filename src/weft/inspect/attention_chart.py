"""Charts of attention: a map whose cells, rows and columns light up, small maps of all layers and heads, pictures."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from weft.charts import MAGNITUDE, readable
from weft.charts.pixels import VIRIDIS, colour_values, pixels_url
from weft.charts.tokens import token_step
from weft.inspect.attention_blocks import Blocks
from weft.inspect.picture import PANEL, redden

if TYPE_CHECKING:
    import altair

    from weft.inspect.attention_maps import Attention, SmallMap

MAX_PIXELS: Final = 2400
"""Width of a map before its columns become narrower than their labels, some of which are then left out."""
ROW_PIXELS: Final = 22
MIN_CELL_PIXELS: Final = 6
LABEL_PIXELS: Final = 150
"""Width of the longest label beside a row."""

KEPT_CELLS: Final = 10_000
"""Cells of a map up to which all are drawn; of a larger one, those below one colour step are its ground."""

COLOUR_STEPS: Final = 200
MAX_SMALL_MAPS: Final = 256
PICTURES_PER_ROW: Final = 6


def draw_map(view: Attention) -> altair.VConcatChart | altair.LayerChart:
    """Return the map of the view, and below it the small maps, if there are several. Where all maps are in the data, a
    click on a small one shows it in the place of the large one."""
    import altair as alt

    blocks, small = view.blocks(), view.small[:MAX_SMALL_MAPS]
    pick = None
    if len(small) > 1 and blocks.size == 1 and all(one.weights.shape == view.weights.shape for one in small):
        pick = alt.selection_point(name="pick", fields=["m"], on="click", clear=False, toggle=False, value=[{"m": 0}])
    large = _large(view, blocks, small if pick is not None else (), pick)
    return large if len(small) < 2 else alt.vconcat(large, _small(view, small, pick), spacing=30)


def _large(view: Attention, blocks: Blocks, small: tuple[SmallMap, ...], pick: Any) -> altair.LayerChart:
    import altair as alt

    maps = [blocks.weights, *(one.weights for one in small)]
    rows, columns = _axes(view, blocks)
    across, down = _steps(rows, columns, blocks)
    x = alt.X("c:O", axis=None, scale=alt.Scale(domain=list(range(len(columns))), paddingInner=0))
    y = alt.Y("r:O", axis=None, scale=alt.Scale(domain=list(range(len(rows))), paddingInner=0))
    row = alt.selection_point(name="row", fields=["r"], on="pointerover", clear="pointerout", empty=False)
    column = alt.selection_point(name="column", fields=["c"], on="pointerover", clear="pointerout", empty=False)
    row_data, column_data = alt.Data(values=rows), alt.Data(values=columns)
    cells = alt.Chart(alt.Data(values=_cells(maps)))
    if pick is not None:
        cells = cells.transform_filter(pick)
    top = _top(blocks.weights)
    told = (
        cells.transform_lookup("r", alt.LookupData(row_data, "r", ["row", "reads", "writes"]))
        .transform_lookup("c", alt.LookupData(column_data, "c", ["column"]))
        .mark_rect()
        .encode(
            x=x,
            y=y,
            color=alt.Color(
                "w:Q",
                scale=alt.Scale(scheme=MAGNITUDE, domain=[0, top], clamp=True),
                legend=alt.Legend(title="weight", orient="right", gradientLength=120),
            ),
            tooltip=_tooltip(view),
        )
        .add_params(row, column)
    )
    # The ground has the colour of no weight, and is under the cells that are too faint to be drawn.
    ground = (
        alt.Chart(alt.Data(values=[{}]))
        .mark_rect(color=VIRIDIS[0])
        .encode(x=alt.value(0), x2=alt.value("width"), y=alt.value(0), y2=alt.value("height"))
    )
    band = {"filled": False, "strokeWidth": 1.5, "color": "#e69f00"}
    row_band = (
        alt.Chart(row_data).transform_filter(row).mark_rect(**band).encode(y=y, x=alt.value(0), x2=alt.value("width"))
    )
    column_band = (
        alt.Chart(column_data)
        .transform_filter(column)
        .mark_rect(**band)
        .encode(x=x, y=alt.value(0), y2=alt.value("height"))
    )
    beside = {"align": "right", "baseline": "middle", "limit": LABEL_PIXELS}
    above = {
        "align": "center",
        "baseline": "bottom",
        "limit": max(across, token_step([one["column"] for one in columns])) - 2,
    }
    row_labels, column_labels = alt.Chart(row_data), alt.Chart(column_data)
    layers = [
        ground,
        told,
        row_band,
        column_band,
        # Labels fade while a partner is pointed at; the partners of that token are written over them by their weight.
        _thin(row_labels, "r", down, ROW_PIXELS * 0.6)
        .mark_text(**beside)
        .encode(y=y, x=alt.value(-8), text="row:N", opacity=alt.condition(column, alt.value(0.2), alt.value(1)))
        .add_params(row),
        _thin(column_labels, "c", across, above["limit"])
        .mark_text(**above)
        .encode(x=x, y=alt.value(-6), text="column:N", opacity=alt.condition(row, alt.value(0.2), alt.value(1)))
        .add_params(column),
        _partners(cells.transform_filter(column), "r", row_data, "row", down, ROW_PIXELS * 0.6)
        .mark_text(**beside, fontWeight="bold")
        .encode(y=y, x=alt.value(-8), text="row:N", opacity=_faint(top)),
        _partners(cells.transform_filter(row), "c", column_data, "column", across, above["limit"])
        .mark_text(**above, fontWeight="bold")
        .encode(x=x, y=alt.value(-6), text="column:N", opacity=_faint(top)),
    ]
    title = _heading(view, small)
    return alt.layer(*layers).properties(
        width=across * len(columns), height=down * len(rows), title=alt.Title(title, offset=28)
    )


def _faint(top: float) -> altair.Opacity:
    import altair as alt

    return alt.Opacity("w:Q", scale=alt.Scale(domain=[0, top], range=[0.1, 1], clamp=True), legend=None)


def _thin(chart: altair.Chart, place: str, step: float, needed: float) -> altair.Chart:
    """Leave out labels that would cover their neighbours."""
    every = max(1, math.ceil(needed / step - 0.2))
    return chart if every == 1 else chart.transform_filter(f"datum.{place} % {every} == 0")


def _partners(
    cells: altair.Chart, place: str, data: altair.Data, name: str, step: float, needed: float
) -> altair.Chart:
    """The tokens that a pointed one attends to, or is attended to by: where labels are left out, the strongest."""
    import altair as alt

    found = cells.transform_lookup(place, alt.LookupData(data, place, [name]))
    return (
        found
        if step >= needed * 0.8
        else found.transform_window(k="rank()", sort=[alt.SortField("w", "descending")]).transform_filter(
            "datum.k <= 3"
        )
    )


def _axes(view: Attention, blocks: Blocks) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows and columns of the chart, with their labels."""
    rows = []
    for number, label in enumerate(blocks.rows):
        first = view.rows[number * blocks.size]
        row = {"r": number, "row": readable(label)}
        if first.reads is not None:
            row |= {"reads": readable(first.reads), "writes": readable(first.writes) if first.writes else "—"}
        rows.append(row)
    return rows, [{"c": number, "column": readable(label)} for number, label in enumerate(blocks.columns)]


def _steps(rows: list[dict[str, Any]], columns: list[dict[str, Any]], blocks: Blocks) -> tuple[float, float]:
    """The width and height of a cell: as its labels need, but smaller where the map would be very large."""
    across = min(token_step([one["column"] for one in columns]), max(MIN_CELL_PIXELS, MAX_PIXELS / len(columns)))
    return across, min(ROW_PIXELS, max(MIN_CELL_PIXELS, MAX_PIXELS / len(rows)))


def _cells(maps: list[Any]) -> list[dict[str, Any]]:
    """The cells of maps, numbered from 0; of a large map without the faintest."""
    found: list[dict[str, Any]] = []
    for number, weights in enumerate(maps):
        least = -1.0 if weights.size <= KEPT_CELLS else _top(weights) / COLOUR_STEPS
        places = np.argwhere(weights > least)
        values = weights[weights > least]
        found += [
            {"m": number, "r": row, "c": column, "w": round(value, 4)}
            for (row, column), value in zip(places.tolist(), values.tolist(), strict=True)
        ]
    return found


def _top(weights: Any) -> float:
    """The weight with the last colour: the largest, or of a large map one that few exceed."""
    if not weights.size:
        return 1.0
    top = weights.max() if weights.size <= KEPT_CELLS else np.quantile(weights[weights > 0], 0.998)
    return max(float(f"{float(top):.3g}"), 1e-6)


def _tooltip(view: Attention) -> list[Any]:
    import altair as alt

    rows = [alt.Tooltip("row:N", title="from")]
    if view.part in ("cross", "decoder") and any(row.reads for row in view.rows):
        rows = [alt.Tooltip("reads:N", title="reads"), alt.Tooltip("writes:N", title="writes")]
    return [*rows, alt.Tooltip("column:N", title="attends to"), alt.Tooltip("w:Q", title="weight", format=".4f")]


def _heading(view: Attention, small: tuple[SmallMap, ...]) -> Any:
    """The name of the map that is shown."""
    import altair as alt

    from weft.inspect.attention_maps import name_map

    if not small:
        return view.heading
    heads = {one.layer: one.heads for one in view.layers if one.part == view.part}
    names = [view.heading, *(name_map(view.part, one.layer, one.head, heads[one.layer], "mean") for one in small)]
    return alt.ExprRef(f"{json.dumps(names, ensure_ascii=False)}[pick.m ? pick.m[0] : 0]")


def _small(view: Attention, small: tuple[SmallMap, ...], pick: Any) -> altair.LayerChart:
    """A row of small maps for each layer, a column for each head."""
    import altair as alt

    values = [
        {
            "m": number,
            "layer": one.layer,
            "head": one.head,
            "url": pixels_url(colour_values(_enlarged(one.weights), _top(one.weights))),
            "entropy": round(_entropy(one.weights), 2),
        }
        for number, one in enumerate(small, 1)
    ]
    size, heads = view.size, max(one.head for one in small)
    layers = max(one.layer for one in small)
    names = [alt.Tooltip("layer:O"), alt.Tooltip("head:O"), alt.Tooltip("entropy:Q", title="entropy of a row, bits")]
    x = alt.X("head:O", axis=alt.Axis(orient="top", labelAngle=0, ticks=False, domain=False))
    y = alt.Y("layer:O", axis=alt.Axis(ticks=False, domain=False))
    base = alt.Chart(alt.Data(values=values)).encode(x=x, y=y)
    images = base.mark_image(width=size, height=size, aspect=False).encode(url="url:N", tooltip=names)
    frames = base.mark_rect(filled=False, color="#e69f00", strokeWidth=2)
    if pick is None:
        chosen = f"datum.layer == {view.layer} && datum.head == {view.head or 0}"
        frames = frames.transform_filter(chosen)
        note = "of all heads and layers"
    else:
        images, frames = images.add_params(pick), frames.transform_filter(pick)
        note = "of all heads and layers; a click shows one above"
    return alt.layer(images, frames).properties(
        width=(size + 8) * heads, height=(size + 8) * layers, title=alt.Title(f"small maps {note}", fontWeight="normal")
    )


def _entropy(weights: Any) -> float:
    """The mean entropy of the rows in bits: 0 where each attends to one token alone."""
    shares = weights / np.maximum(weights.sum(-1, keepdims=True), 1e-12)
    return float(-(shares * np.log2(np.maximum(shares, 1e-12))).sum(-1).mean())


def _enlarged(weights: Any) -> Any:
    """A map of at least 72 pixels: a browser would blur a smaller one."""
    times = [max(1, math.ceil(72 / max(1, side))) for side in weights.shape]
    return np.repeat(np.repeat(weights, times[0], axis=0), times[1], axis=1)


def draw_pictures(view: Attention) -> altair.LayerChart:
    """Return the picture once for each word, red where the word attended to."""
    import altair as alt

    assert view.picture is not None
    assert view.grid is not None
    values = []
    for number, (row, weights) in enumerate(zip(view.rows, view.weights, strict=True)):
        url = pixels_url(redden(view.picture, weights, view.grid))
        place = {"x": number % PICTURES_PER_ROW, "y": number // PICTURES_PER_ROW}
        values.append({**place, "word": readable(row.token), "url": url, "weight": round(float(weights.max()), 4)})
    x, y = alt.X("x:O", axis=None), alt.Y("y:O", axis=None)
    base = alt.Chart(alt.Data(values=values)).encode(x=x, y=y)
    told = [alt.Tooltip("word:N"), alt.Tooltip("weight:Q", title="largest weight")]
    images = base.mark_image(width=PANEL, height=PANEL, aspect=False).encode(url="url:N", tooltip=told)
    words = base.mark_text(dy=-PANEL / 2 - 8, fontSize=15, limit=PANEL).encode(text="word:N")
    columns, rows = min(PICTURES_PER_ROW, len(values)), -(-len(values) // PICTURES_PER_ROW)
    return alt.layer(images, words).properties(
        width=(PANEL + 12) * columns, height=(PANEL + 36) * rows, title=view.heading
    )
