"""Defaults of a training: few epochs over much data, enough updates on little data, and gentle rates for weights that
are good already."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from weft.tasks.sections import Tree, written

EMBEDDING_SHARE: Final = 1 / 4
"""The rate of embeddings as a share of that of new parts, where a model starts from another run. Few labelled examples
have few of the words; if these learned fast, they would move away from the words that are only in other texts."""


def passes(
    tree: Mapping[str, Any], tokens: float, batch_tokens: int, *, epochs: float, between: tuple[int, int], updates: int
) -> int:
    """The number of epochs for training data of about so many tokens: `epochs` within the limits of `between`, and more
    where they would give fewer than `updates` updates. The batch size is the one in the tree, or `batch_tokens`."""
    least, most = between
    batch = (written(tree, "train", "batch_tokens") or batch_tokens) * (written(tree, "train", "accumulate") or 1)
    per_epoch = max(1.0, tokens / batch)
    return max(round(min(most, max(least, epochs))), math.ceil(updates / per_epoch))


def started_rates(tree: Mapping[str, Any]) -> Tree:
    """The default rates of a model that starts from another run (`train.start`); nothing for one that does not."""
    if written(tree, "train", "start") is None:
        return {}
    layers = written(tree, "model", "layers")
    depth = (layers if isinstance(layers, int) else 1) + 1  # the layers and the embeddings below them
    return {"rate_decay": round(EMBEDDING_SHARE ** (1 / depth), 3)}
