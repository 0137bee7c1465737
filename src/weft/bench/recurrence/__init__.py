"""`weft bench recurrence`: one recurrent layer beside torch.nn, the plain loop and its matrix products alone."""

from weft.bench.recurrence.case import Case, Size, plan_cases
from weft.bench.recurrence.long import LongFigures, long_cases, long_remarks, measure_long, tabulate_long
from weft.bench.recurrence.measure import OTHERS, Figures, check_contenders, measure
from weft.bench.recurrence.table import remarks, tabulate

__all__ = [
    "OTHERS",
    "Case",
    "Figures",
    "LongFigures",
    "Size",
    "check_contenders",
    "long_cases",
    "long_remarks",
    "measure",
    "measure_long",
    "plan_cases",
    "remarks",
    "tabulate",
    "tabulate_long",
]
