"""The view `parameters`: where are the numbers? Each part of a model with its count and the formula of that count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from rich import box
from rich.table import Table as RichTable
from rich.text import Text
from torch import nn

from weft.charts import CATEGORIES, Table
from weft.console import SafeConsole, visible
from weft.inspect.parameter_counts import Part, count_parameters
from weft.inspect.view import View, ViewKind
from weft.run import Run

PICTURE_WIDTH, ROW_HEIGHT = 840, 34
"""Pixels of the whole model, and of one level of its parts."""

LABEL_PIXELS_PER_CHARACTER: Final = 7.2
"""The width of a character of a part's name in the picture; a part that is too narrow for it has a tooltip."""


@dataclass(frozen=True)
class ParameterTable(View):
    """The parts of a model as a tree."""

    root: Part

    name: ClassVar[str] = "parameters"

    @property
    def title(self) -> str:
        return f"{self.root.total:,} parameters"

    @property
    def summary(self) -> str:
        return (
            "Each box is a part of the model, as wide as its share of the parameters, and stands below the part that "
            "contains it. A shared table is counted once. The numbers have the formula of each count."
        )

    def to_dict(self) -> dict[str, Any]:
        return {"total": self.root.total, **self.root.tree()}

    def chart(self) -> Any:
        import altair

        boxes = list(_boxes(self.root))
        depth = 1 + max(row["depth"] for row in boxes)
        base = altair.Chart(altair.InlineData(values=boxes)).encode(
            x=altair.X("start:Q", axis=None, scale=altair.Scale(domain=[0, max(1, self.root.total)], nice=False)),
            y=altair.Y("top:Q", axis=None, scale=altair.Scale(domain=[0, depth], reverse=True, nice=False)),
            tooltip=["name:N", "kind:N", altair.Tooltip("parameters:Q", format=","), "formula:N", "where:N", "shape:N"],
        )
        colours = altair.Scale(
            domain=list(dict.fromkeys(row["branch"] for row in boxes)), range=[CATEGORIES[-1], *CATEGORIES]
        )
        rectangles = base.mark_rect(stroke="gray", strokeWidth=0.5, fillOpacity=0.35).encode(
            x2="end:Q", y2="bottom:Q", color=altair.Color("branch:N", legend=None, scale=colours)
        )
        names = (
            base.transform_filter("datum.label != ''")
            .transform_calculate(middle="(datum.start + datum.end) / 2", line="datum.top + 0.5")
            .mark_text(fontSize=12, limit=400)
            .encode(x="middle:Q", y="line:Q", text="label:N")
        )
        return altair.layer(rectangles, names).properties(width=PICTURE_WIDTH, height=ROW_HEIGHT * depth)

    def table(self) -> Table:
        return Table(HEADINGS, [tuple(cells) for cells in _rows(self.root)])

    def lines(self, width: int) -> list[Text]:
        rows = _rows(self.root)
        tables = [_terminal_table(rows, DISPENSABLE[:left_out]) for left_out in range(len(DISPENSABLE) + 1)]
        widths = [SafeConsole(width=1000).measure(table).maximum for table in tables]
        left_out = next((number for number, needed in enumerate(widths) if needed <= width), len(DISPENSABLE))
        # A line that is too long for the window is better than a number without its last digits.
        console = SafeConsole(width=max(width, widths[left_out]))
        with console.capture() as captured:
            console.print(tables[left_out])
        found = [Text.from_ansi(line) for line in captured.get().splitlines()]
        if left_out:
            names = " and ".join(", ".join(DISPENSABLE[:left_out]).rsplit(", ", 1))
            found.append(Text(f"A window of {widths[0]} columns shows {names} too.", style="dim"))
        return found


HEADINGS: Final = ("part", "kind", "shape", "formula", "where", "each", "parameters")
DISPENSABLE: Final = ("kind", "shape", "where", "each")
"""Columns that a narrow terminal does without, the first one first."""


def _terminal_table(rows: list[list[str]], without: Sequence[str]) -> RichTable:
    table = RichTable(box=box.SIMPLE, pad_edge=False)
    kept = [number for number, heading in enumerate(HEADINGS) if heading not in without]
    for number in kept:
        table.add_column(HEADINGS[number], no_wrap=True, justify="right" if number >= len(HEADINGS) - 2 else "left")
    for cells in rows:
        table.add_row(*(Text(visible(cells[number])) for number in kept))
    return table


def _rows(root: Part) -> list[list[str]]:
    found = []
    for part, depth, times in root.rows():
        shapes = ", ".join("×".join(map(str, shape)) or "1" for shape in part.shapes)
        shared = ", ".join(f"as {name}" for name in part.shared)
        found.append(
            [
                "  " * depth + (part.name or "all"),
                part.kind,
                ", ".join(filter(None, [shapes, shared])),
                str(part.formula or ""),
                _sizes(part),
                f"{part.count:,}" if times > 1 else "",
                f"{part.count * times:,}",
            ]
        )
    return found


def _sizes(part: Part) -> str:
    return " ".join(f"{letter}={size}" for letter, size in (part.formula.sizes if part.formula else {}).items())


def _boxes(root: Part) -> list[dict[str, Any]]:
    """A rectangle for each part: from the first of its parameters to the last, below the part that contains it."""
    found: list[dict[str, Any]] = []

    def place(part: Part, start: int, depth: int, branch: str, times: int) -> None:
        size = part.total * times
        pixels = PICTURE_WIDTH * size / max(1, root.total)
        name = part.name or "all"
        found.append(
            {
                "name": name,
                "label": _label(name, size, pixels),
                "kind": part.kind,
                "parameters": size,
                "formula": str(part.formula or ""),
                "where": _sizes(part),
                "shape": ", ".join("×".join(map(str, shape)) for shape in part.shapes),
                "branch": branch,
                "start": start,
                "end": start + size,
                "top": depth,
                "bottom": depth + 1,
                "depth": depth,
            }
        )
        for child in part.parts:
            below = branch if depth else child.name
            place(child, start, depth + 1, below, times * part.times)
            start += child.total * times * part.times

    place(root, 0, 0, "all", 1)
    return found


def _label(name: str, size: int, pixels: float) -> str:
    """The name of a part and its count, as far as they fit."""
    both, last = f"{name}  {size:,}", f"…{name[name.rfind('.') :]}" if "." in name else name
    return next((text for text in (both, name, last) if len(text) * LABEL_PIXELS_PER_CHARACTER <= pixels), "")


def parameters(what: Run | nn.Module) -> ParameterTable:
    """Return the parts of a run's model, or of any module, with the number of their parameters."""
    return ParameterTable(count_parameters(what.model if isinstance(what, Run) else what))


KIND: Final = ViewKind("parameters", "Where are the numbers?", parameters, takes_text=False)
