"""The table of the recurrence benchmark, and the remarks below it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from weft.bench.recurrence.measure import Figures
from weft.bench.table import NOTHING

NAMES: Final = {
    "graph": "graph", "graphed": "graphed", "torch": "torch.nn", "torch_fp16": "torch.nn fp16", "eager": "eager",
}  # fmt: skip
"""The contenders beside weft and the limit, as a table names them."""

RARE: Final = ("graph", "graphed", "torch_fp16")
"""Contenders that few cells and devices have: a table without them says nothing of it."""


MEANING: Final = (
    "ratio: the time before it ÷ weft's; limit: the layer's matrix products alone; share: limit ÷ weft's time"
)


def tabulate(rows: Sequence[Figures]) -> tuple[list[str], list[list[str]]]:
    """Return headings and lines; memory only where it was measured."""
    others = _others(rows)
    headings = ["cell", "B,T,H", "dtype", "weft ms", "backend"]
    headings += [heading for name in others.values() for heading in (f"{name} ms", "ratio")] + ["limit ms", "share"]
    with_memory = any(row.memory for row in rows)
    headings += ["weft MiB", "torch.nn MiB"] if with_memory else []
    lines = []
    for row in rows:
        line = [row.case.cell, str(row.case.size), row.case.dtype, _milliseconds(row, "weft"), row.backend]
        for who in others:
            line += [_milliseconds(row, who), _ratio(row, who)]
        line += [_milliseconds(row, "limit"), _share(row)]
        line += [_megabytes(row, who) for who in ("weft", "torch")] if with_memory else []
        lines.append([*line, f"{row.first:.2f}"])
    return [*headings, "first call s"], lines


def remarks(rows: Sequence[Figures]) -> list[str]:
    """Return what the columns mean, why a backend is not the fastest and why a figure is missing, each once."""
    found: dict[str, None] = {}
    others = {*_others(rows), "limit"}
    for row in rows:
        if row.reason:
            found[f"{row.case.cell} runs on {row.backend}: {row.reason}"] = None
        for who, why in ((who, why) for who, why in row.missing.items() if who in others):
            found[f"{row.case.cell} without {NAMES.get(who, who)}: {why}"] = None
    return [MEANING, *found]


def _others(rows: Sequence[Figures]) -> dict[str, str]:
    """The contenders that have columns: those that were asked for, of RARE only those that ran."""
    found = {}
    for who, name in NAMES.items():
        if any(who in row.seconds or (who in row.missing and who not in RARE) for row in rows):
            found[who] = name
    return found


def _milliseconds(row: Figures, who: str) -> str:
    """Three significant digits."""
    if who not in row.seconds:
        return NOTHING
    value = 1000 * row.seconds[who]
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _ratio(row: Figures, who: str) -> str:
    ratio = row.ratio(who)
    return NOTHING if ratio is None else f"{ratio:.2f}×"


def _share(row: Figures) -> str:
    ratio = row.ratio("limit")
    return NOTHING if ratio is None else f"{100 * ratio:.0f}%"


def _megabytes(row: Figures, who: str) -> str:
    return f"{row.memory[who] / 2**20:.1f}" if who in row.memory else NOTHING
