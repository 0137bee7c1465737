"""The default length of a training: few epochs over much data, and enough updates on little data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from weft.tasks.sections import written


def passes(
    tree: Mapping[str, Any], tokens: float, batch_tokens: int, *, epochs: float, between: tuple[int, int], updates: int
) -> int:
    """The number of epochs for training data of about so many tokens: `epochs` within the limits of `between`, and more
    where they would give fewer than `updates` updates. The batch size is the one in the tree, or `batch_tokens`."""
    least, most = between
    batch = (written(tree, "train", "batch_tokens") or batch_tokens) * (written(tree, "train", "accumulate") or 1)
    per_epoch = max(1.0, tokens / batch)
    return max(round(min(most, max(least, epochs))), math.ceil(updates / per_epoch))
