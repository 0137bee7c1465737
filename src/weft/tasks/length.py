"""How long a model learns by default: a few passes over much data, and enough updates where there is little."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from weft.tasks.sections import written


def passes(
    tree: Mapping[str, Any], tokens: float, batch_tokens: int, *, epochs: float, between: tuple[int, int], updates: int
) -> int:
    """Epochs for training data of about so many tokens: `epochs` within limits, and more where a pass has so few
    batches that a model would not get `updates` updates. A batch is what a person wrote, or `batch_tokens`."""
    least, most = between
    batch = (written(tree, "train", "batch_tokens") or batch_tokens) * (written(tree, "train", "accumulate") or 1)
    per_epoch = max(1.0, tokens / batch)
    return max(round(min(most, max(least, epochs))), math.ceil(updates / per_epoch))
