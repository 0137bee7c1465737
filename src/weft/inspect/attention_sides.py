"""The two sides of a chart of attention: tokens beside the rows and above the columns, which light up."""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

from weft.charts import column_data
from weft.charts.tokens import token_step
from weft.inspect.attention_blocks import Blocks

MAX_PIXELS: Final = 2400
"""Width of a map before its columns become narrower than their labels, some of which are then left out."""

ROW_PIXELS: Final = 22

MIN_CELL_PIXELS: Final = 6

LABEL_PIXELS: Final = 150
"""Width of the longest label beside a row."""

MAX_PARTNERS: Final = 3
"""Partners of a token that are named where not all labels have room."""

LIT: Final = "#e69f00"
"""The colour of frames around what is pointed at or chosen."""


class Side(NamedTuple):
    """The rows or the columns of a map in the chart: their place in a cell, their label, and how they are drawn."""

    place: str
    label: str
    data: dict[str, Any]
    channel: Any
    step: float
    needed: float
    """The width and height of a cell, and what a label needs of it."""
    text: dict[str, Any]
    """Settings of the labels."""
    beside: dict[str, Any]
    """Where the labels are."""

    @property
    def every(self) -> int:
        """Labels have room at one in so many rows or columns."""
        return max(1, math.ceil(self.needed / self.step - 0.2))

    @property
    def pointed(self) -> str:
        """The number of the row or column under the pointer, by its cell or by its label; -1 without one."""
        place, by_label = self.place, f"{self.label}_label.{self.place}"
        return f"(cell.{place} ? cell.{place}[0] : {by_label} ? {by_label}[0] : -1)"

    def band(self) -> Any:
        """The frame around the row or column under the pointer."""
        import altair as alt

        axis = "y" if self.place == "r" else "x"
        first, last, length = ("x", "x2", "width") if axis == "y" else ("y", "y2", "height")
        return (
            alt.Chart(self.data)
            .transform_filter(f"datum.{self.place} == {self.pointed}")
            .mark_rect(filled=False, strokeWidth=1.5, color=LIT)
            .encode(**{axis: self.channel, first: alt.value(0), last: alt.value(length)})
        )

    def labels(self, other: Side) -> Any:
        """The tokens, as many as have room; `partners` take their place while the other side is pointed at."""
        import altair as alt

        faded = alt.condition(f"{other.pointed} >= 0", alt.value(0.2 if self.every > 1 else 0), alt.value(1))
        return (
            alt.Chart(self.data)
            .transform_filter(f"datum.{self.place} % {self.every} == 0")
            .mark_text(**self.text)
            .encode(**self._at(), text=f"{self.label}:N", opacity=faded)
            .properties(name=f"{self.label}_labels")
        )

    def partners(self, cells: Any, other: Side, top: float) -> Any:
        """The tokens by their weights for the token of the other side that is pointed at: where not all labels have
        room, those of the largest weights."""
        import altair as alt

        found = cells.transform_filter(f"datum.{other.place} == {other.pointed}").transform_calculate(
            **{self.label: f"{self.label}_names[datum.{self.place}]"}, share=f"0.25 + 0.75 * min(1, datum.w / {top})"
        )
        if self.every > 1:
            found = found.transform_window(rank="rank()", sort=[alt.SortField("w", "descending")])
            found = found.transform_filter(f"datum.rank <= {MAX_PARTNERS}")
        weight = alt.Opacity("share:Q", scale=None)
        # No bolder than the labels: wider ones would be cut at the edge of the picture.
        return found.mark_text(**self.text).encode(**self._at(), text=f"{self.label}:N", opacity=weight)

    def _at(self) -> dict[str, Any]:
        return {"y" if self.place == "r" else "x": self.channel, **self.beside}


def find_sides(blocks: Blocks, rows: dict[str, Any], columns: dict[str, Any]) -> tuple[Side, Side]:
    import altair as alt

    across, down = cell_size(blocks)
    x = alt.X("c:O", axis=None, scale=alt.Scale(domain=columns["c"], paddingInner=0))
    y = alt.Y("r:O", axis=None, scale=alt.Scale(domain=rows["r"], paddingInner=0))
    left = {"align": "right", "baseline": "middle", "limit": LABEL_PIXELS}
    width = token_step(blocks.columns)
    above = {"align": "center", "baseline": "bottom", "limit": width - 2}
    return (
        Side("r", "row", column_data(rows), y, down, ROW_PIXELS * 0.6, left, {"x": alt.value(-8)}),
        Side("c", "column", column_data(columns), x, across, width, above, {"y": alt.value(-6)}),
    )


def cell_size(blocks: Blocks) -> tuple[float, float]:
    """The width and height of a cell: as its labels need, but smaller where the map would be very large."""
    tall, wide = len(blocks.rows), len(blocks.columns)
    across = min(token_step(blocks.columns), max(MIN_CELL_PIXELS, MAX_PIXELS / max(1, wide)))
    return across, min(ROW_PIXELS, max(MIN_CELL_PIXELS, MAX_PIXELS / max(1, tall)))
