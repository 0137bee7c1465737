"""Charts of attention: a map whose cells, rows and columns light up, small maps of all layers and heads, pictures."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from weft.charts import MAGNITUDE, column_data, readable
from weft.charts.pixels import VIRIDIS, colour_values, pixels_url
from weft.inspect.attention_blocks import Blocks
from weft.inspect.attention_sides import LIT, find_sides
from weft.inspect.picture import PANEL, redden

if TYPE_CHECKING:
    from weft.inspect.attention_maps import Attention, SmallMap

KEPT_CELLS: Final = 10_000
"""Cells of a map up to which all are drawn; of a larger one, those below one colour step are its ground."""

MANY_CELLS: Final = 1_000
"""Cells of a map from which on a few large weights would leave all others dark."""

COLOUR_STEPS: Final = 200
MAX_SMALL_MAPS: Final = 256
PICTURES_PER_ROW: Final = 6

PICKED: Final = "(pick.m ? pick.m[0] : 0)"
"""The number of the small map that was clicked, in the language of Vega; 0 is the map of the view."""


def draw_map(view: Attention) -> Any:
    """Return the map of the view, and below it the small maps, if there are several. Where all maps are in the data, a
    click on a small one shows it in the place of the large one."""
    import altair as alt

    blocks, small = view.blocks(), view.small[:MAX_SMALL_MAPS]
    # A chart in a concatenation leaves the title of the picture to the view.
    if len(small) < 2:
        return alt.vconcat(_large(view, blocks, ())).properties(params=_params(view, blocks, ""))
    whole = view.can_switch
    charts = _large(view, blocks, small if whole else ()), _small(view, small, whole=whole)
    # altair gives the parts of chart 0 and chart 1 names that end so.
    picks = [_point("pick", "m", view="small_maps_1", on="click", toggle=False)] if whole else []
    return alt.vconcat(*charts, spacing=30).properties(params=[*_params(view, blocks, "_0"), *picks])


def _params(view: Attention, blocks: Blocks, ending: str) -> list[Any]:
    """The tooltip of a cell, and the names of rows and columns. Names are read from lists, as Vega-Lite cannot look
    them up in data that another layer draws."""
    import altair as alt

    rows, columns = _axes(view, blocks)
    hover = {"on": "pointerover", "clear": "pointerout"}
    return [
        _point("cell", "r", "c", view=f"cells{ending}", **hover),
        _point("row_label", "r", view=f"row_labels{ending}", **hover),
        _point("column_label", "c", view=f"column_labels{ending}", **hover),
        *(
            alt.VariableParameter(name=f"{name}_names", value=values)
            for name, values in {**rows, **columns}.items()
            if name not in ("r", "c")
        ),
    ]


def _point(name: str, *fields: str, view: str, **options: Any) -> Any:
    """A selection of what the pointer is on in one part of the chart, given by its name. altair's own parameters would
    be bound to all layers of a part."""
    import altair as alt

    select = alt.PointSelectionConfig(type="point", fields=list(fields), **options)
    return alt.TopLevelSelectionParameter(name=name, select=select, views=[view])


def _large(view: Attention, blocks: Blocks, small: tuple[SmallMap, ...]) -> Any:
    """The map with its labels. Under the cells, and in the place of those too faint to be drawn, is the colour of no
    weight."""
    import altair as alt

    names, keys = _axes(view, blocks)
    rows, columns = find_sides(blocks, names, keys)
    places = {name: "r" for name in names if name != "r"} | {"column": "c"}
    cells = alt.Chart(column_data(_cells([blocks.weights, *(one.weights for one in small)])))
    if small:
        cells = cells.transform_filter(f"datum.m == {PICKED}")
    top = _top(blocks.weights)
    colours = alt.Color(
        "w:Q",
        scale=alt.Scale(scheme=MAGNITUDE, domain=[0, top], clamp=True),
        legend=alt.Legend(title="weight", orient="right", gradientLength=120),
    )
    told = (
        cells.transform_calculate(**{name: f"{name}_names[datum.{place}]" for name, place in places.items()})
        .mark_rect()
        .encode(x=columns.channel, y=rows.channel, color=colours, tooltip=_tooltip(view))
        .properties(name="cells")
    )
    ground = (
        alt.Chart(column_data({"ground": [0]}))
        .mark_rect(color=VIRIDIS[0])
        .encode(x=alt.value(0), x2=alt.value("width"), y=alt.value(0), y2=alt.value("height"))
    )
    layers = [
        ground,
        told,
        rows.band(),
        columns.band(),
        rows.labels(columns),
        columns.labels(rows),
        rows.partners(cells, columns, top),
        columns.partners(cells, rows, top),
    ]
    width, height = columns.step * len(blocks.columns), rows.step * len(blocks.rows)
    title = alt.Title(_heading(view, small), offset=28)
    return alt.layer(*layers).properties(width=width, height=height, title=title)


def _axes(view: Attention, blocks: Blocks) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """The rows and columns of the chart, with their labels."""
    first = [view.rows[number * blocks.tall] for number in range(len(blocks.rows))]
    rows: dict[str, list[Any]] = {"r": list(range(len(first))), "row": list(map(readable, blocks.rows))}
    if any(row.reads for row in first):
        rows["reads"] = [readable(row.reads or "") for row in first]
        rows["writes"] = [readable(row.writes) if row.writes else "—" for row in first]
    return rows, {"c": list(range(len(blocks.columns))), "column": list(map(readable, blocks.columns))}


def _cells(maps: list[Any]) -> dict[str, list[Any]]:
    """The cells of maps, numbered from 0; of a large map without the faintest."""
    found: dict[str, list[Any]] = {"m": [], "r": [], "c": [], "w": []}
    for number, weights in enumerate(maps):
        least = -1.0 if weights.size <= KEPT_CELLS else _top(weights) / COLOUR_STEPS
        rows, columns = np.nonzero(weights > least)
        found["m"] += [number] * len(rows)
        found["r"] += rows.tolist()
        found["c"] += columns.tolist()
        found["w"] += [float(f"{value:.3g}") for value in weights[rows, columns].tolist()]
    return found


def _top(weights: Any) -> float:
    """The weight with the last colour: the largest, or of a large map one that few exceed."""
    if not weights.size:
        return 1.0
    top = weights.max() if weights.size <= MANY_CELLS else np.quantile(weights[weights > 0], 0.995)
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
    return alt.ExprRef(f"{json.dumps(names, ensure_ascii=False)}[{PICKED}]")


def _small(view: Attention, small: tuple[SmallMap, ...], *, whole: bool) -> Any:
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
    base = alt.Chart(column_data(_columns(values))).encode(x=x, y=y)
    images = base.mark_image(width=size, height=size, aspect=False).encode(url="url:N", tooltip=names)
    frames, note = base.mark_rect(filled=False, color=LIT, strokeWidth=2), "of all layers and heads"
    if whole:
        images = images.properties(name="small_maps")
        frames = frames.transform_filter(f"datum.m == {PICKED}")
    else:
        frames = frames.transform_filter(f"datum.layer == {view.layer} && datum.head == {view.head or 0}")
    return alt.layer(images, frames).properties(
        width=(size + 8) * heads, height=(size + 8) * layers, title=alt.Title(f"small maps {note}", fontWeight="normal")
    )


def _columns(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]}


def _entropy(weights: Any) -> float:
    """The mean entropy of the rows in bits: 0 where each attends to one token alone."""
    shares = weights / np.maximum(weights.sum(-1, keepdims=True), 1e-12)
    return float(-(shares * np.log2(np.maximum(shares, 1e-12))).sum(-1).mean())


def _enlarged(weights: Any) -> Any:
    """A map of at least 72 pixels: a browser would blur a smaller one."""
    times = [max(1, math.ceil(72 / max(1, side))) for side in weights.shape]
    return np.repeat(np.repeat(weights, times[0], axis=0), times[1], axis=1)


def draw_pictures(view: Attention) -> Any:
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
    base = alt.Chart(column_data(_columns(values))).encode(x=x, y=y)
    told = [alt.Tooltip("word:N"), alt.Tooltip("weight:Q", title="largest weight")]
    images = base.mark_image(width=PANEL, height=PANEL, aspect=False).encode(url="url:N", tooltip=told)
    words = base.mark_text(dy=-PANEL / 2 - 8, fontSize=15, limit=PANEL).encode(text="word:N")
    columns, rows = min(PICTURES_PER_ROW, len(values)), -(-len(values) // PICTURES_PER_ROW)
    return alt.vconcat(
        alt.layer(images, words).properties(
            width=(PANEL + 12) * columns, height=(PANEL + 36) * rows, title=view.heading
        )
    )
