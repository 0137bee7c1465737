"""Benchmarks of weft beside other software and beside the limit of the machine, a folder or file for each.

recurrence    one recurrent layer, forward and backward
attending     a translator that attends inside its recurrence, forward and backward
training      whole updates of a translator
decode        translation by beam search
forecast      forecasters from a file of series to scores
loop          the time that the training loop adds to an update
sampling      updates with scheduled sampling
serve         a server with many clients at once

The parts that they share are `machine` (device, load, versions), `timing` and `table`.
"""

from weft.bench.machine import cold_cache, describe, load_warning
from weft.bench.recurrence import (
    OTHERS,
    Case,
    Figures,
    LongFigures,
    Size,
    check_contenders,
    long_cases,
    long_remarks,
    measure,
    measure_long,
    plan_cases,
    remarks,
    tabulate,
    tabulate_long,
)

__all__ = [
    "OTHERS",
    "Case",
    "Figures",
    "LongFigures",
    "Size",
    "check_contenders",
    "cold_cache",
    "describe",
    "load_warning",
    "long_cases",
    "long_remarks",
    "measure",
    "measure_long",
    "plan_cases",
    "remarks",
    "tabulate",
    "tabulate_long",
]
