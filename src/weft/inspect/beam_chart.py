"""The chart of a beam tree: it grows from left to right, one column for each step and one lane for each place of the
beam. Below the lanes of a beam are the best proposals that were dropped at that step."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from weft.charts import CATEGORIES, readable
from weft.inspect.search_tree import TreeNode

if TYPE_CHECKING:
    import altair

    from weft.inspect.beam_tree import BeamTree

LANE_PIXELS: Final = 50
MIN_COLUMN_PIXELS, MAX_COLUMN_PIXELS, CHARACTER_PIXELS = 84, 130, 8
MAX_DROPPED_LANES: Final = 6
"""Lanes for dropped proposals of one beam; the data has all of them."""

MAX_DRAWN_NODES: Final = 4000
"""Nodes of a chart; of more, those that lead to no text of the n-best list are left out, the lowest places first."""

END_BELOW: Final = 0.5
"""How far below the node that it extends an end stands, in lanes."""

LEAST_LABELLED: Final = 0.005
"""A dropped proposal that is less likely has no number on its edge, as many lie close together."""

LABEL_ALONG: Final = 0.68
"""Where on an edge its probability stands, from 0 at the parent to 1."""

BEST, LISTED, OTHER = "the best text", "other texts of the n-best list", "others"
COLOURS: Final = {BEST: CATEGORIES[1], LISTED: CATEGORIES[0], OTHER: "#838a94"}
FADED: Final = 0.3


def draw_tree(view: BeamTree) -> Any:
    """Return the chart: the tree with a slider over the steps, above the n-best list."""
    import altair as alt

    alt.data_transformers.disable_max_rows()
    rows = tree_rows(view)
    steps = max(1, view.tree.steps)
    column = _column_pixels(view)
    last, lanes = max(row["x"] for row in rows), max(row["y"] for row in rows) + 0.5
    step = alt.param(
        name="step", value=steps, bind=alt.binding_range(min=1, max=steps, step=1, name="steps of the search ")
    )
    base = alt.Chart().transform_filter("datum.step <= step")
    x_scale, y_scale = alt.Scale(domain=[-0.35, last + 0.6], nice=False), alt.Scale(domain=[lanes, -0.7], nice=False)
    ticks = alt.Axis(
        values=list(range(1, int(last) + 1)),
        title="step",
        orient="top",
        grid=False,
        domain=False,
        ticks=False,
        format="d",
    )
    x, y = alt.X("x:Q", scale=x_scale, axis=ticks), alt.Y("y:Q", scale=y_scale, axis=None)
    middle_x, middle_y = alt.X("lx:Q", scale=x_scale, axis=ticks), alt.Y("ly:Q", scale=y_scale, axis=None)
    colour = alt.Color(
        "line:N", title=None, scale=alt.Scale(domain=list(COLOURS), range=list(COLOURS.values())), legend=_legend(alt)
    )
    fade = alt.condition("datum.until < step", alt.value(FADED), alt.value(1.0))
    tooltip = [alt.Tooltip(f"{name}:N", title=name.replace("_", " ")) for name in _tooltips(view)]
    edges = (
        base.transform_filter("datum.step > 0")
        .mark_rule(strokeCap="round")
        .encode(
            x=x,
            y=y,
            x2="x1:Q",
            y2="y1:Q",
            color=colour,
            opacity=fade,
            tooltip=tooltip,
            size=alt.Size("share:Q", scale=alt.Scale(domain=[0, 1], range=[0.8, 6]), legend=None),
        )
    )
    points = base.mark_point(filled=True, opacity=1).encode(
        x=x,
        y=y,
        color=colour,
        opacity=fade,
        tooltip=tooltip,
        shape=alt.Shape("shape:N", scale=None),
        size=alt.condition("datum.shape == 'square'", alt.value(70), alt.value(46)),
    )
    shares = _haloed(base.transform_filter("datum.step > 0 && datum.shape != 'square'"), fontSize=10, dy=-1)
    shares = [one.encode(x=middle_x, y=middle_y, text="label:N", opacity=fade) for one in shares]
    words = _haloed(base.transform_filter("datum.shape != 'square'"), fontSize=13, dy=-13, limit=column - 6)
    ends = _haloed(base.transform_filter("datum.shape == 'square'"), fontSize=11, dx=8, align="left")
    named = [one.encode(x=x, y=y, text="token:N", opacity=fade, tooltip=tooltip) for one in (*words, *ends)]
    tree = (
        alt.layer(edges, *shares, points, *named, data=alt.NamedData("nodes"))
        .properties(width=column * (last + 0.95), height=LANE_PIXELS * (lanes + 0.7))
        .add_params(step)
    )
    chart = alt.vconcat(tree, _list(view), spacing=18).resolve_scale(color="independent") if view.leaves else tree
    # Named data is stored once; altair would check the rows of other data again for each layer.
    chart.datasets = {"nodes": rows}
    return chart


def tree_rows(view: BeamTree) -> list[dict[str, Any]]:
    """Return a row for each node that is drawn, with its position in columns and lanes, and that of its parent."""
    tree, positions = view.tree, _positions(view)
    siblings = tree.children()
    rows = []
    for node in tree.nodes:
        if node.number not in positions:
            continue
        x, y = positions[node.number]
        x1, y1 = positions.get(node.parent, (x, y))
        probability = math.exp(node.log_probability)
        path = "".join(one.text for one in tree.path(node.number)).replace("▁", " ").strip()
        finished = node.state == "finished"
        rows.append(
            {
                "step": node.step,
                "until": node.until,
                "x": round(x, 3),
                "y": round(y, 3),
                "x1": round(x1, 3),
                "y1": round(y1, 3),
                "lx": round(x1 + LABEL_ALONG * (x - x1), 3),
                "ly": round(y1 + LABEL_ALONG * (y - y1), 3),
                "share": round(probability, 4),
                "label": "" if node.state == "dropped" and probability < LEAST_LABELLED else show_share(probability),
                "shape": "square" if finished else "circle",
                "line": OTHER if node.rank is None else BEST if node.rank == 1 else LISTED,
                "token": _label(view, node, probability),
                "probability": f"{probability:.4g}",
                "sum": f"{node.sum:.4f}",
                "ranked_by": f"{node.ranked:.4f}",
                "fate": "the start" if node.parent < 0 else view.fate(node),
                "text": readable(path) if path else "",
                "alternatives": _alternatives(siblings[node.parent], node) if node.parent >= 0 else "",
            }
        )
    return rows


def show_share(probability: float) -> str:
    """Return a probability in two digits: .28, 1, <.01."""
    if probability >= 0.995:
        return "1"
    return "<.01" if probability < 0.005 else f"{probability:.2f}"[1:]


def _label(view: BeamTree, node: TreeNode, probability: float) -> str:
    """Return the word beside a node: the token, or for an end its probability and its place in the list."""
    if node.parent < 0:
        return "⟨start⟩"
    if node.state != "finished":
        return readable(node.text)
    own = next((f" #{leaf.rank}" for leaf in view.leaves if leaf.node == node.number), "")
    return f"{show_share(probability)}{own}"


def _alternatives(siblings: list[TreeNode], node: TreeNode) -> str:
    """Return the other tokens that the same hypothesis proposed, the likeliest first."""
    others = sorted((one for one in siblings if one.number != node.number), key=lambda one: -one.log_probability)
    return ", ".join(f"{readable(one.text)} {show_share(math.exp(one.log_probability))}" for one in others[:8])


def _positions(view: BeamTree) -> dict[int, tuple[float, float]]:
    """Return the column and the lane of each node that is drawn."""
    width, dropped = view.decode.beam // view.decode.groups, min(view.candidates, MAX_DROPPED_LANES)
    drawn = [node for node in view.tree.nodes if node.state != "dropped"]
    if len(drawn) + view.tree.steps * dropped * view.decode.groups > MAX_DRAWN_NODES:
        dropped = 0
    lanes = max(1, min(width, MAX_DRAWN_NODES // max(1, view.tree.steps * view.decode.groups)))
    tall = lanes + (dropped + 0.4 if dropped else 0) + 0.6 * (view.decode.groups > 1)
    found: dict[int, tuple[float, float]] = {0: (0.0, (tall * view.decode.groups - (tall - lanes) - 1) / 2)}
    taken: dict[tuple[int, int], int] = {}
    for node in view.tree.nodes[1:]:
        top = node.group * tall
        if node.parent not in found or ((node.place or 0) >= lanes and node.rank is None):
            continue
        if node.state == "finished":
            x, y = found[node.parent]
            ends = taken[node.parent, -1] = taken.get((node.parent, -1), -1) + 1  # stop strings: several ends of one
            found[node.number] = (x, y + END_BELOW + 0.25 * ends)
        elif node.state == "kept":
            found[node.number] = (float(node.step), top + min(node.place or 0, lanes - 1))
        else:
            lane = taken[node.step, node.group] = taken.get((node.step, node.group), -1) + 1
            if lane < dropped:
                found[node.number] = (float(node.step), top + lanes + 0.4 + lane)
    return found


def _column_pixels(view: BeamTree) -> int:
    longest = max((len(readable(node.text)) for node in view.tree.nodes), default=1)
    return int(min(MAX_COLUMN_PIXELS, max(MIN_COLUMN_PIXELS, longest * CHARACTER_PIXELS + 8)))


def _tooltips(view: BeamTree) -> list[str]:
    every = ["text", "probability", "sum", "ranked_by", "fate", "alternatives"]
    return [name for name in every if name != "ranked_by" or view.decode.penalises]


def _legend(alt: Any) -> Any:
    return alt.Legend(orient="top", direction="horizontal", symbolType="circle", symbolOpacity=1, offset=2)


def _haloed(base: altair.Chart, **options: Any) -> list[altair.Chart]:
    """Return a text in two layers: a wide outline in the colour of the ground, so that lines do not cross the letters,
    and the text itself."""
    import altair as alt

    outline = base.mark_text(**options, stroke=alt.expr("background"), strokeWidth=4, strokeJoin="round")
    return [outline, base.mark_text(**options)]


def _list(view: BeamTree) -> Any:
    """Return the n-best list as rows of text."""
    import altair as alt

    rows = [
        {
            "rank": leaf.rank,
            "place": f"#{leaf.rank}",
            "score": f"{leaf.score:.3f}",
            "share": f"{math.exp(leaf.sum):.3g}",
            "text": readable(leaf.text) + ("" if leaf.finished else " …"),
            "line": BEST if leaf.rank == 1 else LISTED,
        }
        for leaf in view.leaves
    ]
    heads = {"place": (0, ""), "score": (40, "score"), "share": (110, "probability"), "text": (190, "text")}
    y = alt.Y("rank:O", axis=None)
    colour = alt.Color("line:N", scale=alt.Scale(domain=list(COLOURS), range=list(COLOURS.values())), legend=None)
    base = alt.Chart(alt.InlineData(values=rows))
    parts = []
    for name, (left, _) in heads.items():
        text = base.mark_text(align="left", fontSize=13, limit=4000).encode(y=y, x=alt.value(left), text=f"{name}:N")
        parts.append(text.encode(color=colour) if name == "place" else text)
    top = alt.Chart(alt.InlineData(values=[{"rank": 0}])).mark_text(align="left", fontSize=11, opacity=0.75)
    titles = [top.encode(y=y, x=alt.value(left), text=alt.value(head)) for left, head in heads.values() if head]
    longest = max(len(leaf.text) for leaf in view.leaves)
    return alt.layer(*titles, *parts).properties(width=200 + 8 * longest, height=alt.Step(20))
