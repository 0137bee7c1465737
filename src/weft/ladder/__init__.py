"""Models of rising strength on the same data under the same budget, in one table."""

from weft.ladder.climbing import Outcome, climb
from weft.ladder.measure import Measured, Summary, summarise
from weft.ladder.page import draw_page, plot_text
from weft.ladder.rungs import DEFAULT_RUNGS, Rung, build_rungs

__all__ = [
    "DEFAULT_RUNGS",
    "Measured",
    "Outcome",
    "Rung",
    "Summary",
    "build_rungs",
    "climb",
    "draw_page",
    "plot_text",
    "summarise",
]
