"""Models of rising strength on the same data under the same budget, in one table."""

from weft.ladder.climbing import ClimbOutcome, climb
from weft.ladder.measure import summarise
from weft.ladder.page import draw_page, plot_text
from weft.ladder.rungs import DEFAULT_RUNGS, Rung, build_rungs
from weft.ladder.summary import MeasuredRung, Summary

__all__ = [
    "DEFAULT_RUNGS",
    "ClimbOutcome",
    "MeasuredRung",
    "Rung",
    "Summary",
    "build_rungs",
    "climb",
    "draw_page",
    "plot_text",
    "summarise",
]
