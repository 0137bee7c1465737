"""The chart of an embedding map: points of words, the question and its neighbours with labels, and bars of cosines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.charts import CATEGORIES, readable

if TYPE_CHECKING:
    from weft.inspect.embedding_map import EmbeddingMap, MapPoint

WIDTH, HEIGHT = 540, 460
BAR_WIDTH = 130
LABEL_PIXELS, CHARACTER_PIXELS = 15, 7
KINDS: Final = {"query": "question", "sum": "sum", "neighbour": "neighbour", "context": "frequent word"}
COLOURS: Final = {
    "question": CATEGORIES[1],
    "sum": CATEGORIES[3],
    "neighbour": CATEGORIES[0],
    "frequent word": "#838a94",
}
MAX_LABELS_WITHOUT_QUESTION: Final = 60
MARGIN, RIGHT_MARGIN = 0.06, 0.2
"""Margins of the map as shares of its size; on the right labels need more."""


def draw_map(view: EmbeddingMap) -> Any:
    """Return the map, with a field to search for a word, beside the cosines of the neighbours."""
    import altair as alt

    alt.data_transformers.disable_max_rows()
    rows = point_rows(view)
    search = alt.param(name="search", value="", bind=alt.binding(input="text", placeholder="a word", name="find "))
    found = "search != '' && indexof(lower(datum.word), lower(search)) >= 0"
    base = alt.Chart()
    across = alt.Scale(domain=_extent([row["x"] for row in rows], RIGHT_MARGIN), nice=False)
    down = alt.Scale(domain=_extent([row["y"] for row in rows]), nice=False)
    x, y, label_y = (
        alt.X("x:Q", axis=None, scale=across),
        alt.Y("y:Q", axis=None, scale=down),
        alt.Y("label_y:Q", axis=None, scale=down),
    )
    kinds = [name for name in COLOURS if any(row["kind"] == name for row in rows)]
    scale = alt.Scale(domain=kinds, range=[COLOURS[name] for name in kinds])
    colour = alt.Color("kind:N", title=None, scale=scale, legend=alt.Legend(orient="top"))
    tooltip = [alt.Tooltip("word:N"), alt.Tooltip("cosine:N"), alt.Tooltip("kind:N")]
    points = base.mark_point(filled=True).encode(
        x=x,
        y=y,
        color=colour,
        tooltip=tooltip,
        size=alt.condition(found, alt.value(160), alt.Size("size:Q", scale=None)),
        opacity=alt.condition(f"datum.kind != 'frequent word' || {found}", alt.value(1.0), alt.value(0.45)),
    )
    names = base.transform_filter(f"datum.labelled || ({found})").encode(
        x=x, y=label_y, text="word:N", opacity=alt.value(1)
    )
    leaders = base.transform_filter("datum.labelled").mark_rule(strokeWidth=1, opacity=0.6)
    leaders = leaders.encode(x=x, y=y, y2="label_y:Q", color=colour)
    options: dict[str, Any] = {"align": "left", "dx": 7, "fontSize": 12}
    halo = names.mark_text(**options, stroke=alt.expr("background"), strokeWidth=4, strokeJoin="round")
    chart = alt.layer(leaders, halo, points, names.mark_text(**options), data=alt.NamedData("words"))
    chart = chart.properties(width=WIDTH, height=HEIGHT)
    chart = chart.add_params(search, alt.selection_interval(bind="scales", name="zoom"))
    whole = alt.hconcat(chart, _bars(view), spacing=40) if view.neighbours else chart
    # Named data is stored once; altair would check the rows of other data again for each layer.
    whole.datasets = {"words": rows}
    return whole


def point_rows(view: EmbeddingMap) -> list[dict[str, Any]]:
    """Return a row for each point; labels that would lie on each other are moved up or down."""
    labelled = [one for one in view.points if one.kind != "context"]
    labelled = labelled or list(view.points[:MAX_LABELS_WITHOUT_QUESTION])
    heights = _spread(view, labelled)
    rows = []
    for one in view.points:
        rows.append(
            {
                "word": readable(one.word),
                "kind": KINDS[one.kind],
                "x": round(one.x, 5),
                "y": round(one.y, 5),
                "label_y": round(heights.get(one.word, one.y), 5),
                "labelled": one.word in heights,
                "cosine": "" if one.similarity is None else f"{one.similarity:.3f}",
                "size": 26 if one.kind == "context" else 90,
            }
        )
    return rows


def _spread(view: EmbeddingMap, labelled: list[MapPoint]) -> dict[str, float]:
    """Return the height of each label, in the units of the map."""
    left, right = _extent([one.x for one in view.points], RIGHT_MARGIN)
    low, high = _extent([one.y for one in view.points])
    taken: list[tuple[float, float, float]] = []
    found: dict[str, float] = {}
    for one in sorted(labelled, key=lambda one: -one.y):
        x, y = WIDTH * (one.x - left) / (right - left), HEIGHT * (high - one.y) / (high - low)
        end = x + 10 + CHARACTER_PIXELS * len(readable(one.word))
        shifts = [sign * LABEL_PIXELS * step / 2 for step in range(12) for sign in (1, -1)]
        free = (
            y + shift
            for shift in shifts
            if all(x > other[1] or end < other[0] or abs(y + shift - other[2]) >= LABEL_PIXELS for other in taken)
        )
        place = next(free, y)
        taken.append((x, end, place))
        found[one.word] = high - place * (high - low) / HEIGHT
    return found


def _extent(values: list[float], after: float = MARGIN) -> list[float]:
    """Return the least and the greatest value with a margin before and after them."""
    low, high = min(values), max(values)
    size = (high - low) or 1.0
    return [low - MARGIN * size, high + after * size]


def _bars(view: EmbeddingMap) -> Any:
    import altair as alt

    words = [readable(word) for word, _ in view.neighbours]
    rows = [{"word": word, "cosine": cosine} for word, (_, cosine) in zip(words, view.neighbours, strict=True)]
    lowest = min(0.0, *(cosine for _, cosine in view.neighbours))
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        y=alt.Y("word:N", sort=words, title=None, axis=alt.Axis(labelLimit=160, ticks=False, domain=False)),
        x=alt.X(
            "cosine:Q", scale=alt.Scale(domain=[lowest, 1]), axis=alt.Axis(title="cosine", tickCount=2, format="~g")
        ),
    )
    bars = base.mark_bar(height=12, color=CATEGORIES[0]).encode(tooltip=["word:N", "cosine:Q"])
    values = base.mark_text(align="left", dx=4, fontSize=11).encode(text=alt.Text("cosine:Q", format=".3f"))
    return (bars + values).properties(width=BAR_WIDTH, height=alt.Step(24))
