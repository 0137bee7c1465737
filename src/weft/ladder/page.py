"""Shows a ladder: a plot in characters for the terminal, and a page with the table and a picture.

Both plots have the score over the seconds of training, on a logarithmic scale.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from weft.charts import CATEGORIES, can_draw, draw
from weft.compare.bootstrap import MIN_RECORDS
from weft.console import visible
from weft.errors import WeftError
from weft.extras import EXTRAS
from weft.ladder.rungs import lower_is_better
from weft.ladder.summary import MeasuredRung, Summary
from weft.metric_text import PERCENT, metric_name, show_metric
from weft.run.folder.files import write_json, write_text

if TYPE_CHECKING:
    import altair

RESULT, PAGE, PICTURE = "ladder.json", "ladder.html", "ladder.svg"

PLOT_COLUMNS, PLOT_ROWS = 60, 14
"""The size of the plot in characters."""

MARKS: Final = "123456789abcdefghijklmnopqrstuvwxyz"
"""The mark of each rung in the plot, which is also its number in the table."""

MIN_SECONDS: Final = 0.01
"""Shorter trainings are drawn here; zero has no place on a logarithmic scale."""

STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#24272c}"
    "table{border-collapse:collapse}td,th{padding:.3rem .8rem;text-align:right;border-bottom:1px solid #e4e6ea}"
    "td:nth-child(2),th:nth-child(2){text-align:left}.best td{font-weight:bold}.cheapest td{background:#eaf6ee}"
)

HEADINGS: Final = ("", "rung", "score", "95% interval", "parameters", "seconds", "speed", "size")


def rows(summary: Summary) -> list[list[str]]:
    """The cells of the table, a row for each rung."""
    return [
        [
            _mark(number),
            rung.name,
            _score(summary.metric, rung.score),
            _bounds(summary.metric, rung),
            f"{rung.parameters:,}",
            f"{rung.seconds:,.1f}",
            f"{rung.speed:,.0f}",
            show_bytes(rung.bytes),
        ]
        for number, rung in enumerate(summary.rungs)
    ]


def headings(summary: Summary) -> list[str]:
    """The headings of the table."""
    named = {"score": metric_name(summary.metric), "speed": summary.speed_unit, "seconds": "training s"}
    return [named.get(name, name) for name in HEADINGS]


def conclusion(summary: Summary) -> str:
    """One sentence: the best rung, and the cheapest that is not significantly worse, or why there is none."""
    by_name = {rung.name: rung for rung in summary.rungs}
    best = by_name[summary.best]
    score = _score(summary.metric, best.score)
    if len(summary.rungs) == 1:
        return f"{best.name} is the only rung ({score})"
    if summary.cheapest is None:
        return f"{summary.examples:,} examples cannot separate the rungs: {_doubt(summary, best)}"
    if not best.trained:
        return f"{best.name} is the best ({score}): no model is as good as this rule, which is no model"
    if summary.best == summary.cheapest:
        return f"{best.name} is the best ({score}), and no cheaper rung is as good"
    cheapest = by_name[summary.cheapest]
    return (
        f"{best.name} is the best ({score}); {cheapest.name} is not significantly worse "
        f"({_score(summary.metric, cheapest.score)}; on {summary.examples:,} examples the difference may be up to "
        f"{_distance(summary.metric, cheapest.behind)}) and trained for {cheapest.seconds:,.1f} s "
        f"instead of {best.seconds:,.1f} s"
    )


def _doubt(summary: Summary, best: MeasuredRung) -> str:
    """The closing sentence of a ladder without a cheapest rung: the reason, and a cure."""
    score = _score(summary.metric, best.score)
    if summary.examples < MIN_RECORDS:
        return f"{best.name} has the best score ({score}); measure on at least {MIN_RECORDS}"
    rivals = [rung for rung in summary.rungs if rung.trained != best.trained and math.isfinite(rung.score)]
    rival = min(rivals, key=lambda rung: rung.behind)
    return (
        f"{best.name} has the best score ({score}), but its lead over {rival.name} "
        f"({_score(summary.metric, rival.score)}) may be chance; measure on more examples, or train longer"
    )


def _distance(metric: str, value: float) -> str:
    """A difference between two scores."""
    return f"{100 * value:.2f} points" if metric in PERCENT else show_metric(metric, value)


def plot_text(summary: Summary, *, columns: int = PLOT_COLUMNS, lines: int = PLOT_ROWS) -> str:
    """The score of each rung over the seconds of its training, as characters; the best is at the top."""
    points = [(n, rung) for n, rung in enumerate(summary.rungs) if math.isfinite(rung.score)]
    times = [math.log10(max(rung.seconds, MIN_SECONDS)) for _, rung in points]
    sign = -1 if lower_is_better(summary.task, summary.metric) else 1  # the better, the higher
    scores = [sign * rung.score for _, rung in points]
    grid = [[" "] * columns for _ in range(lines)]
    for (number, _), x, y in zip(points, times, scores, strict=True):
        column = _scale(x, times, columns)
        row = lines - 1 - _scale(y, scores, lines)
        while grid[row][column] != " " and column + 1 < columns:  # rungs in the same place stand side by side
            column += 1
        grid[row][column] = _mark(number)
    top, bottom = (_score(summary.metric, value) for value in (sign * max(scores), sign * min(scores)))
    width = max(len(top), len(bottom))
    sides = [top.rjust(width), *[" " * width] * (lines - 2), bottom.rjust(width)]
    first, last = (f"{10**value:.3g} s" for value in (min(times), max(times)))
    axis = f"{' ' * width} └{'─' * columns}"
    below = f"{' ' * (width + 2)}{first}{last.rjust(columns - len(first))}"
    body = [f"{side} │{''.join(line)}".rstrip() for side, line in zip(sides, grid, strict=True)]
    return "\n".join([*body, axis, below])


def _scale(value: float, values: Sequence[float], size: int) -> int:
    low, high = min(values), max(values)
    return round((value - low) / (high - low) * (size - 1)) if high > low else 0


def draw_page(summary: Summary, folder: Path) -> list[Path]:
    """Write ladder.json and ladder.html, and ladder.svg where the extra for pictures is installed."""
    write_json(folder / RESULT, summary.tree())
    written = [folder / RESULT, folder / PAGE]
    picture = f"<p>There is no picture: {escape(EXTRAS['plot'].install)} draws one.</p>"
    if can_draw():
        try:
            drawn = draw(chart(summary), folder / PICTURE)
            picture = drawn.read_text(encoding="utf-8").partition("?>")[2] or drawn.read_text(encoding="utf-8")
            written.append(drawn)
        except WeftError as error:
            picture = f"<p>There is no picture: {escape(visible(str(error)))}</p>"
    write_text(folder / PAGE, _page(summary, picture))
    return written


def _page(summary: Summary, picture: str) -> str:
    """The page: one sentence, the table, the picture, and what was left out."""

    def cells(kind: str, values: Sequence[str]) -> str:
        return "".join(f"<{kind}>{escape(visible(value))}</{kind}>" for value in values)

    classes = [
        " ".join(name for name in ("best", "cheapest") if getattr(summary, name) == rung.name) for rung in summary.rungs
    ]
    body = "\n".join(
        f'<tr class="{kind}">{cells("td", row)}</tr>' for kind, row in zip(classes, rows(summary), strict=True)
    )
    left_out = "".join(
        f"<li>{escape(visible(name))}: {escape(visible(why))}</li>" for name, why in summary.failed.items()
    )
    notes = "".join(f"<p>{escape(visible(note))}</p>" for note in summary.notes)
    green = " Green: the cheapest that is not significantly worse." * (summary.cheapest is not None)
    title = f"ladder: {summary.task}"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style></head><body>\n<h1>{escape(title)}</h1>\n<p>{escape(conclusion(summary))}.</p>\n"
        f"<table><thead><tr>{cells('th', headings(summary))}</tr></thead><tbody>\n{body}\n</tbody></table>\n"
        f"<p>Measured on the {summary.measured_on} data, {summary.examples:,} examples; intervals by paired bootstrap. "
        f"Bold: the best.{green}</p>\n{notes}"
        + (f"<p>Left out:</p><ul>{left_out}</ul>\n" if left_out else "")
        + f"{picture}\n</body></html>\n"
    )


def chart(summary: Summary) -> altair.LayerChart:
    """The chart: a point for each rung, with its interval and its name."""
    import altair

    scale = 100 if summary.metric in PERCENT else 1
    points: list[dict[str, Any]] = [
        {
            "rung": visible(rung.name),
            "seconds": max(rung.seconds, MIN_SECONDS),
            "score": scale * rung.score,
            "low": scale * rung.low,
            "high": scale * rung.high,
        }
        for rung in summary.rungs
        if math.isfinite(rung.score)
    ]
    title = metric_name(summary.metric).replace("_", " ") + (" (%)" if scale == 100 else "")
    height = altair.Scale(zero=False, reverse=lower_is_better(summary.task, summary.metric))
    base = altair.Chart(altair.InlineData(values=points)).encode(
        x=altair.X("seconds:Q", title="seconds of training", scale=altair.Scale(type="log")),
        color=altair.Color("rung:N", scale=altair.Scale(range=CATEGORIES), legend=None, sort=None),
    )
    bars = base.mark_rule().encode(y=altair.Y("low:Q", title=title, scale=height), y2="high:Q")
    marks = base.mark_point(filled=True, size=70).encode(y=altair.Y("score:Q", title=title))
    names = base.mark_text(align="left", dx=8).encode(y="score:Q", text="rung:N")
    return altair.LayerChart(layer=[bars, marks, names]).properties(width=560, height=320)


def _mark(number: int) -> str:
    return MARKS[number % len(MARKS)]


def _score(metric: str, value: float) -> str:
    return show_metric(metric, value) if math.isfinite(value) else "∞"


def _bounds(metric: str, rung: MeasuredRung) -> str:
    return f"{_score(metric, rung.low)} – {_score(metric, rung.high)}" if math.isfinite(rung.low) else "—"


def show_bytes(size: int) -> str:
    """A size on the disk: 12 kB, 3.4 MB; nothing for a rung without files."""
    for unit, each in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= each:
            return f"{size / each:.1f} {unit}"
    return f"{size} B" if size else "—"
