"""The chart of ranked tokens: chips in lines of text, coloured by rank or probability, above a histogram of ranks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from weft.charts import MAGNITUDE, readable
from weft.inspect.chips import CELL_PIXELS, CHIP_PIXELS, LINE_PIXELS, PADDING_PIXELS, Laid, lay_chips

if TYPE_CHECKING:
    import altair

    from weft.inspect.token_ranks import TokenRanks

COLOURS: Final = {
    "top 1": "rgba(86, 180, 233, 0.28)",
    "2–10": "rgba(86, 180, 233, 0.6)",
    "11–100": "#e69f00",
    "over 100": "#e2712c",
}
PALE: Final = ("top 1", "2–10")
"""Pale chips let the ground of the theme through, and their text has the colour of the theme."""

DARK_TEXT, LIGHT_TEXT = "#14161a", "#ffffff"
BINS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, math.inf)
"""The last rank of each bar of the histogram."""

MANY_TOKENS, FEWER_CANDIDATES = 800, 5
"""In a text of more tokens, tooltips show fewer candidates, so that the page stays small."""


def draw_ranks(view: TokenRanks) -> Any:
    """Return the chart."""
    import altair as alt

    alt.data_transformers.disable_max_rows()
    laid = lay_chips([one.token for one in view.tokens], view.text, width=view.width)
    rows = chip_rows(view, laid)
    chart = alt.vconcat(_chips(view, laid, rows), _histogram(view), spacing=24).resolve_scale(color="independent")
    # Named data is stored once; altair would check the rows of other data again for each layer.
    chart.datasets = {"tokens": rows}
    return chart


def chip_rows(view: TokenRanks, laid: Laid) -> list[dict[str, Any]]:
    """Return a row for each chip: its box, where its text begins, its numbers and the likeliest candidates."""
    shown = FEWER_CANDIDATES if len(view.tokens) > MANY_TOKENS else None
    rows = []
    for one, chip in zip(view.tokens, laid.chips, strict=True):
        top = chip.line * LINE_PIXELS
        first, second = PADDING_PIXELS, PADDING_PIXELS + CELL_PIXELS * len(chip.blanks)
        left, right = chip.x, chip.x + chip.width
        rows.append(
            {
                "x": round(left, 1),
                "x2": round(right, 1),
                "y": top,
                "y2": top + CHIP_PIXELS,
                "middle": top + CHIP_PIXELS / 2,
                "at_blanks": round(right - first if laid.right_to_left else left + first, 1),
                "at_word": round(right - second if laid.right_to_left else left + second, 1),
                "blanks": chip.blanks,
                "word": chip.word,
                "class": one.rank_class,
                "share": round(one.probability, 5),
                "probability": f"{one.probability:.4g}",
                "rank": f"{one.rank:,}",
                **{
                    f"c{place}": f"{readable(token)}   {math.exp(log):.3g}"
                    for place, (token, log) in enumerate(one.candidates[:shown], start=1)
                },
            }
        )
    return rows


def _chips(view: TokenRanks, laid: Laid, rows: list[dict[str, Any]]) -> Any:
    import altair as alt

    height = max(1, laid.lines) * LINE_PIXELS
    base = alt.Chart()

    def across(name: str) -> altair.X:
        return alt.X(f"{name}:Q", scale=alt.Scale(domain=[0, laid.width], nice=False), axis=None)

    def down(name: str) -> altair.Y:
        return alt.Y(f"{name}:Q", scale=alt.Scale(domain=[height, 0], nice=False), axis=None)

    count = max((sum(name.startswith("c") and name[1:].isdigit() for name in row) for row in rows), default=0)
    tooltip = [alt.Tooltip("word:N", title="token"), alt.Tooltip("probability:N"), alt.Tooltip("rank:N")]
    tooltip += [alt.Tooltip(f"c{place}:N", title=f"{place}.") for place in range(1, count + 1)]
    boxes = base.mark_rect(cornerRadius=4).encode(
        x=across("x"), x2="x2:Q", y=down("y"), y2="y2:Q", tooltip=tooltip, **_colours(view)
    )
    align = "right" if laid.right_to_left else "left"
    font: dict[str, Any] = {"font": "monospace", "fontSize": 14, "align": align, "baseline": "middle"}
    layers = [boxes]
    for test, colour in _text_colours(view):
        some = base.transform_filter(test)
        given: dict[str, Any] = {} if colour is None else {"color": colour}
        for at, text, opacity in (("at_blanks", "blanks", 0.4), ("at_word", "word", 1.0)):
            mark = some.mark_text(**font, **given, opacity=opacity)
            layers.append(mark.encode(x=across(at), y=down("middle"), text=f"{text}:N", tooltip=tooltip))
    return alt.layer(*layers, data=alt.NamedData("tokens")).properties(width=laid.width, height=height)


def _colours(view: TokenRanks) -> dict[str, Any]:
    import altair as alt

    if view.colour == "probability":
        scale = alt.Scale(scheme=MAGNITUDE, domain=[0, 1])
        return {"color": alt.Color("share:Q", title="probability", scale=scale, legend=alt.Legend(orient="top"))}
    names = list(COLOURS)
    legend = alt.Legend(title="rank", orient="top", symbolType="square", symbolSize=180, symbolStrokeWidth=0)
    return {"color": alt.Color("class:N", scale=alt.Scale(domain=names, range=list(COLOURS.values())), legend=legend)}


def _text_colours(view: TokenRanks) -> list[tuple[str, str | None]]:
    """Return a condition for each colour of text, None for that of the theme."""
    if view.colour == "probability":
        return [("datum.share < 0.6", LIGHT_TEXT), ("datum.share >= 0.6", DARK_TEXT)]
    pale = " || ".join(f"datum['class'] == '{name}'" for name in PALE)
    return [(pale, None), (f"!({pale})", DARK_TEXT)]


def _histogram(view: TokenRanks) -> Any:
    """Return the number of tokens by rank; bars grow wider as ranks do."""
    import altair as alt

    highest, before = max(one.rank for one in view.tokens), 0
    rows: list[dict[str, Any]] = []
    for last in BINS:
        first, before = before + 1, int(min(last, 1 << 40))
        if first > highest:
            break
        inside = [one for one in view.tokens if first <= one.rank <= last]
        name = f"{first:,}" if first == last else f"over {first - 1:,}" if last == math.inf else f"{first:,}–{last:,}"
        group = next(label for end, label in zip((1, 10, 100, math.inf), COLOURS, strict=True) if first <= end)
        rows.append({"bin": name, "count": len(inside), "class": group})
    names = list(COLOURS)
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("bin:O", sort=[row["bin"] for row in rows], title="rank", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("count:Q", title="tokens", axis=alt.Axis(tickMinStep=1, grid=True)),
        tooltip=["bin:N", "count:Q"],
    )
    colour = alt.Color("class:N", scale=alt.Scale(domain=names, range=list(COLOURS.values())), legend=None)
    bars = base.mark_bar() if view.colour == "probability" else base.mark_bar().encode(color=colour)
    labels = base.mark_text(dy=-7, fontSize=11).encode(text="count:Q")
    return (bars + labels).properties(width=alt.Step(66), height=120)
