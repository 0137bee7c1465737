"""Runs side by side, with intervals of their scores, and the table of a ladder."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from weft.charts import can_draw
from weft.errors import ConfigError, RunError, WeftError
from weft.metric_text import PERCENT, metric_name, show_change, show_metric
from weft.studio.discovery import LADDER, Found, read_table

if TYPE_CHECKING:
    from weft.compare import Compared, Comparison
    from weft.ladder import Summary

MAX_COMPARED: Final = 12


def compare_runs(
    found: Sequence[Found],
    *,
    data: str | None,
    cells: Mapping[str, Any],
    metric: str | None = None,
    names: Mapping[str, str] | None = None,
    imports: Sequence[str] = (),
) -> dict[str, Any]:
    """Return scores, costs, differing settings and curves of runs of one task; `names` are those of the curves, by id,
    and `imports` what --import named.

    `data` is a file that all runs are measured on now, which gives intervals of the differences to the first run.
    Without it scores and their intervals are those of the reports.
    """
    if not 1 <= len(found) <= MAX_COMPARED:
        raise ConfigError(f"{len(found)} runs", where="runs", cure=f"choose from 1 to {MAX_COMPARED}")
    from weft.compare import compare
    from weft.run import load_config
    from weft.run.report import read_report
    from weft.run.user_classes import has_user_class

    ids = {str(one.folder): one.id for one in found}
    compared = compare([one.folder for one in found], data=data, device="cpu", cells=cells)
    config = load_config(found[0].folder, cells=cells)
    chosen = metric or _metric(compared, config)
    own = imports if any(has_user_class(load_config(one.folder, cells=cells)) for one in found) else ()
    part = compared.measured_on if data is None else None
    reports = [read_report(one.folder) for one in found] if part is not None else [{} for _ in found]
    rows = [
        _row(run, ids[run.name], chosen, report.get("details", {}).get(part, {}))
        for run, report in zip(compared.runs, reports, strict=True)
    ]
    settings = compared.runs[0].settings
    return {
        "metric": chosen,
        "metric_name": metric_name(chosen),
        "percent": chosen in PERCENT,
        "code": _command(found, data, own),
        "measured_on": "the data" if data is not None else compared.measured_on,
        "rows": rows,
        "differences": [
            {"setting": path, "values": [_plain(run.settings[path]) for run in compared.runs]} for path in settings
        ],
        "specification": _curves(found, chosen, names or {}),
        "notes": compared.notes,
    }


def _metric(compared: Comparison, config: Any) -> str:
    from weft.catalog import TASKS

    measured = compared.runs[0].metrics
    wanted = config.train.metric or TASKS[config.task].own_metric(measured)
    return wanted if wanted in measured else next(iter(measured))


def _row(run: Compared, id: str, metric: str, details: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of a run: its score with an interval, that of its difference, its cost."""
    intervals = details.get("intervals")
    bounds = intervals.get(metric) if isinstance(intervals, dict) else None
    low, high = bounds if isinstance(bounds, list | tuple) and len(bounds) == 2 else (None, None)
    difference = run.differences.get(metric)
    return {
        "id": id,
        "value": _finite(run.metrics.get(metric)),
        "low": _finite(low),
        "high": _finite(high),
        "shown": _shown(metric, run.metrics.get(metric), low, high, difference),
        "difference": None if difference is None else difference._asdict(),
        "sure": None if difference is None else difference.sure,
        "metrics": {name: _finite(value) for name, value in run.metrics.items()},
        "parameters": run.parameters,
        "seconds": run.seconds,
        "tokens_per_second": run.tokens_per_second,
        "vocabulary": run.vocabulary,
        "unknown_share": run.unknown_share,
    }


def _shown(metric: str, value: Any, low: Any, high: Any, difference: Any) -> dict[str, str | None]:
    """Return the numbers of a row as the terminal prints them."""
    score, bounds = _finite(value), [_finite(low), _finite(high)]
    return {
        "value": None if score is None else show_metric(metric, score),
        "range": None if None in bounds else " to ".join(show_metric(metric, bound) for bound in bounds),
        "difference": None
        if difference is None
        else "{} ({} to {})".format(*(show_change(metric, one) for one in difference)),
    }


def _command(found: Sequence[Found], data: str | None, imports: Sequence[str]) -> str:
    """Return the command that prints the comparison."""
    options = [
        *(["--data", data] if data is not None else []),
        *(word for name in imports for word in ("--import", name)),
    ]
    return shlex.join(["weft", "compare", *(str(one.folder) for one in found), *options])


def _curves(found: Sequence[Found], metric: str, names: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the chart of all curves; None where a run has none, or nothing can be drawn."""
    if not can_draw():
        return None
    from weft.run.curves import chart, read_curve

    try:
        curves = {names.get(one.id, one.id): read_curve(one.folder) for one in found}
        drawn: dict[str, Any] = chart(curves, metric=metric).to_dict()
    except (WeftError, ValueError):
        return None
    return drawn


def show_ladder(found: Found) -> dict[str, Any]:
    """Return the table, the conclusion and the chart of a ladder."""
    from weft.ladder.page import chart, conclusion, headings, rows

    summary = read_summary(found)
    return {
        "headings": headings(summary),
        "rows": rows(summary),
        "conclusion": conclusion(summary),
        "specification": chart(summary).to_dict() if can_draw() else None,
        "task": summary.task,
        "metric": summary.metric,
        "measured_on": summary.measured_on,
        "examples": summary.examples,
        "notes": summary.notes,
        "failed": summary.failed,
        "best": summary.best,
        "cheapest": summary.cheapest,
    }


def read_summary(found: Found) -> Summary:
    """Return the ladder that ladder.json holds; raise where it is none."""
    from weft.ladder.summary import MeasuredRung, Summary

    tree = read_table(found.folder / LADDER)
    try:
        rungs = [
            MeasuredRung(
                name=str(rung["name"]),
                score=_or_nan(rung["score"]),
                low=_or_nan(rung["low"]),
                high=_or_nan(rung["high"]),
                behind=_or_nan(rung["behind"]),
                parameters=int(rung["parameters"]),
                seconds=float(rung["seconds"]),
                bytes=int(rung["bytes"]),
                speed=float(rung["speed"]),
                trained=bool(rung.get("trained", True)),
            )
            for rung in tree["rungs"]
        ]
        cheapest = None if tree["cheapest"] is None else str(tree["cheapest"])
        failed = {str(name): str(why) for name, why in tree.get("failed", {}).items()}
        summary = Summary(
            str(tree["task"]),
            str(tree["metric"]),
            str(tree["measured_on"]),
            int(tree["examples"]),
            rungs,
            str(tree["best"]),
            cheapest,
            failed,
            [str(note) for note in tree.get("notes", [])],
        )
        names = {rung.name for rung in rungs}
        if summary.best not in names or not names >= {cheapest or summary.best}:
            raise ValueError("a rung that is not listed")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RunError(f"is not the result of a ladder: {error}", where=f"{found.id}/{LADDER}") from None
    return summary


def _or_nan(value: Any) -> float:
    return math.nan if value is None else float(value)


def _finite(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | None) else str(value)
