"""Every name a config file may use, collected from the plain dicts that stand beside the parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.models import CONTEXTS
from weft.nn import CELLS, POOLINGS, SCORES
from weft.tasks import TASKS
from weft.training.optimizer import OPTIMIZERS, SCHEDULES

CATALOG: dict[str, Mapping[str, Any]] = {
    "tasks": TASKS,
    "cells": CELLS,
    "scores": SCORES,
    "poolings": POOLINGS,
    "contexts": CONTEXTS,
    "optimizers": OPTIMIZERS,
    "schedules": SCHEDULES,
}

__all__ = ["CATALOG", "CELLS", "CONTEXTS", "OPTIMIZERS", "POOLINGS", "SCHEDULES", "SCORES", "TASKS"]
