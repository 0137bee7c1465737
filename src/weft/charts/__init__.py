"""Charts: one Vega-Lite specification for each figure, drawn as SVG, PNG, a page, in a notebook and in the studio."""

from weft.charts.data import column_data, row_data
from weft.charts.page import Figure, LinkedScript, Table, page
from weft.charts.rendering import FORMATS, can_draw, check_format, draw, draw_figures, javascript, render
from weft.charts.theme import CATEGORIES, MAGNITUDE, ON_DARK, SIGNED, THEMES, themed
from weft.charts.tokens import readable, token_axis, token_keys

__all__ = [
    "CATEGORIES",
    "FORMATS",
    "MAGNITUDE",
    "ON_DARK",
    "SIGNED",
    "THEMES",
    "Figure",
    "LinkedScript",
    "Table",
    "can_draw",
    "check_format",
    "column_data",
    "draw",
    "draw_figures",
    "javascript",
    "page",
    "readable",
    "render",
    "row_data",
    "themed",
    "token_axis",
    "token_keys",
]
