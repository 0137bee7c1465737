"""All names that a config file may use, from the dicts beside the parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.models import (
    CLASSIFIERS,
    CONTEXTS,
    DECODERS,
    ENCODERS,
    LANGUAGE_MODELS,
    MASKED_MODELS,
    PREFIX_DECODERS,
    TAGGERS,
    TRANSLATORS,
    VECTORS,
)
from weft.nn import CELLS, NORMS, POOLINGS, POSITIONS, SCORES
from weft.settings import Settings
from weft.tasks import TASKS
from weft.training import OPTIMIZERS, SCHEDULES

CATALOG: dict[str, Mapping[str, Any]] = {
    "tasks": TASKS,
    "language_models": LANGUAGE_MODELS,
    "masked_models": MASKED_MODELS,
    "classifiers": CLASSIFIERS,
    "taggers": TAGGERS,
    "translators": TRANSLATORS,
    "prefix_decoders": PREFIX_DECODERS,
    "vectors": VECTORS,
    "encoders": ENCODERS,
    "decoders": DECODERS,
    "cells": CELLS,
    "scores": SCORES,
    "poolings": POOLINGS,
    "contexts": CONTEXTS,
    "positions": POSITIONS,
    "norms": NORMS,
    "optimizers": OPTIMIZERS,
    "schedules": SCHEDULES,
}

PARTS: dict[str, tuple[dict[str, type[Settings]], ...]] = {
    "build_encoder": (ENCODERS,),
    "build_decoder": (DECODERS, LANGUAGE_MODELS, PREFIX_DECODERS),
}
"""The dicts that the settings of a new encoder or decoder belong to, by the method that builds it."""

__all__ = [
    "CATALOG",
    "CELLS",
    "CLASSIFIERS",
    "CONTEXTS",
    "DECODERS",
    "ENCODERS",
    "LANGUAGE_MODELS",
    "MASKED_MODELS",
    "NORMS",
    "OPTIMIZERS",
    "PARTS",
    "POOLINGS",
    "POSITIONS",
    "PREFIX_DECODERS",
    "SCHEDULES",
    "SCORES",
    "TAGGERS",
    "TASKS",
    "TRANSLATORS",
    "VECTORS",
]
