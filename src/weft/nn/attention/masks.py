"""Masks are boolean and True means "real" or "may attend"."""

from __future__ import annotations

import torch
from torch import Tensor


def length_mask(lengths: Tensor, time: int) -> Tensor:
    """lengths (B,) -> (B, time), True at the real positions of each row.

    As a mask of keys it needs a query dimension: `length_mask(lengths, time)[:, None]`.
    """
    return torch.arange(time, device=lengths.device) < lengths[:, None]


def causal_mask(queries: int, keys: int, *, device: torch.device | None = None) -> Tensor:
    """(queries, keys), True where a query may look: the last query sees every key, each earlier one a key less.

    Aligned at the end, because the queries of a step-by-step decoder are the newest positions of its cache.
    """
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)
