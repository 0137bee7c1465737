"""Compares runs: their scores, the settings that differ, and confidence intervals of the differences."""

from weft.compare.bootstrap import SAMPLES, Interval, draw_scores, drawn_units, interval, paired_intervals
from weft.compare.comparison import Compared, Comparison, compare
from weft.compare.tally import Tally, tally, tally_records

__all__ = [
    "SAMPLES",
    "Compared",
    "Comparison",
    "Interval",
    "Tally",
    "compare",
    "draw_scores",
    "drawn_units",
    "interval",
    "paired_intervals",
    "tally",
    "tally_records",
]
