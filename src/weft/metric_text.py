"""Metrics as text: the names and the digits that the terminal, cards and pages share. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from weft.errors import counted

PERCENT: Final = ("accuracy", "f1", "micro_f1", "span_f1", "exact", "wer", "cer", "coverage")
"""Metrics that are shown as percentages."""

NAMES: Final = {"f1": "macro f1", "micro_f1": "micro f1", "span_f1": "span f1"}

MIN_SHOWN_HALF_WIDTH: Final = 0.01
"""Half the width from which on a confidence interval is shown."""


def metric_name(name: str) -> str:
    """The name of a metric for the user: `f1` is the macro average over labels."""
    return NAMES.get(name, name)


def show_score(name: str, value: Any, details: Mapping[str, Any]) -> str:
    """A metric with its interval if that is wide: "80.00% ± 16.8 (95% interval, 20 examples)".

    Near 0% and 100% the interval is not symmetric, and its bounds are shown: "100.00% (95% interval 20.7–100.0, …)".
    """
    shown = show_metric(name, value)
    low, high = details.get("intervals", {}).get(name, (0.0, 0.0))
    if (half := (high - low) / 2) < MIN_SHOWN_HALF_WIDTH:
        return shown
    of = counted(details["count"], details["count_of"].removesuffix("s"))
    if not half <= value <= 1 - half:
        return f"{shown} (95% interval {100 * low:.1f}–{100 * high:.1f}, {of})"
    return f"{shown} ± {100 * half:.1f} (95% interval, {of})"


def show_metric(name: str, value: Any) -> str:
    """Format a metric: shares as percentages, BLEU and chrF with one decimal, everything else with three; errors in the
    unit of the data with three digits where they are smaller, and with an exponent where they are very large."""
    if name in PERCENT:
        return f"{100 * value:.2f}%"
    if name in ("mae", "rmse") and (0 < value < 0.1 or value >= 1e15):
        return f"{value:.3g}"
    return f"{value:.1f}" if name in ("bleu", "chrf") else f"{value:.3f}" if value < 100 else f"{value:,.0f}"


def show_change(name: str, value: float) -> str:
    """Format a difference of two scores with its sign: +1.20; shares are in percentage points."""
    digits = 2 if name in PERCENT or name in ("bleu", "chrf") else 3
    return f"{100 * value if name in PERCENT else value:+.{digits}f}"
