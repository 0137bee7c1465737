"""Learning curves of a run, and the new points of one that is in training."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

from weft.disk import open_regular
from weft.documents import parse_json
from weft.errors import RunError
from weft.limits import JOURNAL_FILE_BYTES, JOURNAL_LINE_BYTES
from weft.serve import Event
from weft.studio.discovery import CONFIG, JOURNAL, REPORT, Found, metric_of, read_table, state_of

POLL_SECONDS: Final = 1.0
"""How often the journal of a training is read; it has a line for every tenth update."""

MAX_BYTES_AT_ONCE: Final = 1 << 20


def read_points(found: Found) -> dict[str, Any]:
    """Return the curves that the journal of a run has so far, thinned to what a screen can show."""
    from weft.run.curves import read_curve

    if not (found.folder / JOURNAL).exists():
        raise RunError("has no journal of its training", where=found.id, cure="models of counts and imports have none")
    curve = read_curve(found.folder)
    config = read_table(found.folder / CONFIG) if (found.folder / CONFIG).exists() else {}
    measured = {"valid": dict.fromkeys(curve.metrics)} if curve.metrics else {}
    report = read_table(found.folder / REPORT) if (found.folder / REPORT).exists() else measured
    return {
        "train": [[step, _finite(loss)] for step, loss in curve.train],
        "valid": [[step, {name: _finite(value) for name, value in scores.items()}] for step, scores in curve.valid],
        "metric": metric_of(config, report) or (curve.metrics[0] if curve.metrics else None),
        "state": state_of(found.folder),
    }


async def follow_curve(found: Found, *, poll: float = POLL_SECONDS) -> AsyncIterator[Event]:
    """Yield `curve` with new points of the journal while the run is in training, and `state` at its end."""
    path = found.folder / JOURNAL
    offset = await asyncio.to_thread(_size, path)
    while True:
        state = await asyncio.to_thread(state_of, found.folder)  # before the journal: its last lines are read too
        points, offset = await asyncio.to_thread(read_new_points, path, offset)
        if points["train"] or points["valid"]:
            yield Event("curve", points)
        if state != "training":
            yield Event("state", {"state": state})
            return
        await asyncio.sleep(poll)


def read_new_points(path: Path, offset: int) -> tuple[dict[str, list[Any]], int]:
    """Return the points of the whole lines after the offset, and the offset after them.

    A journal that became shorter, because its training was resumed from an earlier checkpoint, is read from its end on.
    """
    points: dict[str, list[Any]] = {"train": [], "valid": []}
    try:
        with open_regular(path, most=JOURNAL_FILE_BYTES) as file:
            size = file.seek(0, 2)
            if size < offset:
                return points, size
            file.seek(offset)
            content = file.read(MAX_BYTES_AT_ONCE)
    except OSError:
        return points, offset
    whole = content.rfind(b"\n") + 1
    for line in content[:whole].splitlines():
        _add_point(line, points)
    return points, offset + whole


def _add_point(line: bytes, points: dict[str, list[Any]]) -> None:
    """Add the point of a line; one that is no line of a journal is left out."""
    if len(line) > JOURNAL_LINE_BYTES:
        return
    try:
        event = parse_json(line, constants=True)
        if "valid" in event:
            points["valid"].append(
                [int(event["step"]), {name: _finite(value) for name, value in event["valid"].items()}]
            )
        elif "loss" in event:
            points["train"].append([int(event["step"]), _finite(event["loss"])])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0
