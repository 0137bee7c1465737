"""What weft's parts cost, measured against what else there is and against the limit of the machine."""

from weft.bench.case import Case, Size, plan_cases
from weft.bench.machine import cold_cache, describe, load_warning
from weft.bench.recurrence import Figures, measure
from weft.bench.table import remarks, tabulate

__all__ = [
    "Case",
    "Figures",
    "Size",
    "cold_cache",
    "describe",
    "load_warning",
    "measure",
    "plan_cases",
    "remarks",
    "tabulate",
]
