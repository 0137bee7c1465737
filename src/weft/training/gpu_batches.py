"""The default batch on a GPU: large enough to keep it busy, small enough to leave enough updates to learn from.

    factor = largest power of two with     batch_tokens · factor ≤ 16,384
                                           updates in all / factor ≥ 2,000       unless `steps` says how many there are
                                           updates in an epoch / factor ≥ 20
    rate   = rate · min(√factor, 2)

Settings that the user wrote stay; the rate follows the batch only where both are defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import floor, inf, log2, sqrt
from typing import Any, Final

from weft.tasks import Facts, Tree

GPU_BATCH_TOKENS: Final = 16_384
"""Tokens of a batch that keep a large GPU busy."""

MIN_UPDATES, MIN_UPDATES_PER_EPOCH = 2_000, 20
"""The fewest updates, in all and in an epoch, with the larger batch."""

MAX_RATE_FACTOR: Final = 2.0
"""The largest factor of the rate: beyond it, training becomes unstable before it becomes faster."""

CHARACTERS_PER_TOKEN: Final = {"char": 1.0, "bpe": 3.5, "unigram": 3.5, "imported": 4.0, "word": 5.5}
"""Approximate characters of a token, by its kind."""


def fill_gpu(train: Tree, facts: Facts, *, written: Mapping[str, Any], kind: str) -> Tree:
    """Return the defaults of `[train]` for a GPU, from those for a CPU; `kind` is that of the tokens."""
    if "batch_tokens" in written or "batch_tokens" not in train:  # nor has a model of counts any batches
        return train
    epoch = facts.characters / CHARACTERS_PER_TOKEN[kind] / train["batch_tokens"]
    total = inf if "steps" in written else written.get("epochs", train["epochs"]) * epoch
    limits = (GPU_BATCH_TOKENS / train["batch_tokens"], total / MIN_UPDATES, epoch / MIN_UPDATES_PER_EPOCH)
    factor = 2 ** max(0, floor(log2(max(1.0, min(limits)))))
    rate = train["rate"] if "rate" in written else train["rate"] * min(sqrt(factor), MAX_RATE_FACTOR)
    return train | {"batch_tokens": train["batch_tokens"] * factor, "rate": rate}
