"""The table of weft bench recurrence says what its columns mean."""

from __future__ import annotations

from weft.bench import plan_cases, remarks, tabulate
from weft.bench.recurrence.measure import Figures
from weft.nn import CELLS


def test_the_remarks_begin_with_what_the_columns_mean() -> None:
    (case,) = plan_cases(["min_gru"], ["2,3,4"], known=CELLS, device="cpu", dtypes=["float32"])
    row = Figures(case, "cpu", "", 0.5, {"weft": 0.002, "eager": 0.006, "limit": 0.001}, {})
    headings, (line,) = tabulate([row])
    figures = dict(zip(headings, line, strict=True))
    assert (figures["ratio"], figures["share"]) == ("3.00×", "50%")
    assert remarks([row])[0] == (
        "ratio: the time before it ÷ weft's; limit: the layer's matrix products alone; share: limit ÷ weft's time"
    )
