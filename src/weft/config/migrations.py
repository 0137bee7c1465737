"""Run folders of older formats: their settings, labels and statistics are changed in memory when they are read.

A folder says in its manifest which format it has. Each step leads from one format to the next, and a folder goes
through all steps from its own on; its files stay as they are. A new step is a function here and a line in STEPS, with
`weft.documents.FORMAT_VERSION` one higher.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from weft.data.steps import MAX_NUMBER
from weft.documents import FORMAT_VERSION

Documents = dict[str, Any]
"""The values of the JSON files of a folder, by the names of the files; a file that it lacks is not there."""

CONFIG, STATISTICS = "config.json", "statistics.json"

UNKNOWN: Final = -MAX_NUMBER
"""Values that forecasts store for a series without time stamps, and for one without a least value."""


def keep(documents: Documents) -> None:
    """Format 0 to 1: the manifest had no number yet, and all else was the same."""


def add_ends_and_floors(documents: Documents) -> None:
    """Format 1 to 2: forecasts know of each series when its training part ended, and its least value.

    Of older runs neither is known: windows that were trained on are not noticed, and no forecast is raised to 0. Some
    runs that were written as format 1 have both already.
    """
    statistics, config = documents.get(STATISTICS), documents.get(CONFIG)
    if not isinstance(config, dict) or config.get("task") != "forecast" or not isinstance(statistics, dict):
        return
    target = statistics.get("target")
    series = len(target["mean"]) if isinstance(target, dict) and isinstance(target.get("mean"), list) else 0
    for name in ("until", "floor"):
        statistics.setdefault(name, {"mean": [UNKNOWN] * series, "scale": [1.0] * series})


STEPS: Final[Mapping[int, Callable[[Documents], None]]] = {0: keep, 1: add_ends_and_floors}
"""The step from each older format to the next."""


def migrate(documents: Documents, version: int) -> None:
    """Change documents of a folder of that format to those of the current one."""
    for number in range(version, FORMAT_VERSION):
        STEPS[number](documents)
