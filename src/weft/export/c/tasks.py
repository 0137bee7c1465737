"""The plan of an export for each task: its tokenizers, graphs, memory, and the constants that its C reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from weft.export.c.constants import Constants
from weft.export.c.model_source import Plan
from weft.export.c.plan_labels import plan_classify, plan_regress
from weft.export.c.plan_mask import plan_mask
from weft.export.c.plan_series import plan_forecast
from weft.export.c.plan_tag import plan_tag
from weft.export.c.plan_vectors import plan_embed
from weft.export.c.plan_write import plan_caption, plan_lm, plan_translate
from weft.export.graph import Program
from weft.run import Run

TASKS: Final[dict[str, Callable[[Run, Program, Constants], Plan]]] = {
    "classify": plan_classify,
    "regress": plan_regress,
    "tag": plan_tag,
    "mask": plan_mask,
    "translate": plan_translate,
    "caption": plan_caption,
    "lm": plan_lm,
    "forecast": plan_forecast,
    "embed": plan_embed,
}
"""The plan of each task for networks."""
