"""Attention over packed rows: each query sees the keys of its own row, and no padding is ever computed."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from weft.nn.attention.attend import attend
from weft.nn.attention.masks import length_mask
from weft.nn.attention.recording import recording
from weft.nn.kernels import in_half_on_gpu
from weft.nn.packing import Packing

MAX_HEAD_SIZE = 256
"""Features of a head that the fused kernels can hold."""


def attend_packed(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    queries: Packing,
    keys: Packing,
    *,
    causal: bool = False,
    scale: float,
    dropout: float = 0.0,
    module: nn.Module | None = None,
) -> Tensor:
    """query (N, H, D), key (M, H, D), value (M, H, V) of the same rows -> (N, H, V). A row without keys gives zeros.

    causal needs as many queries as keys in every row.
    """
    if has_kernel(query, value) and not recording():
        # The operator behind torch's own attention over nested tensors; it has the same form in every version.
        found: Tensor = torch.ops.aten._flash_attention_forward(
            query, key, value, queries.offsets, keys.offsets, queries.longest, keys.longest,
            dropout, causal, False, scale=scale,
        )[0]  # fmt: skip
        return found
    padded = (packing.pad(x).transpose(1, 2) for x, packing in ((query, queries), (key, keys), (value, keys)))
    mask = length_mask(keys.lengths, keys.longest)[:, None, None]
    context = attend(*padded, mask=mask, causal=causal, scale=scale, dropout=dropout, module=module)
    return queries.unpad(context.transpose(1, 2))


def has_kernel(query: Tensor, value: Tensor) -> bool:
    """Whether torch has a fused kernel for rows of different lengths here."""
    size = query.size(-1)
    fits = size == value.size(-1) and size % 8 == 0 and size <= MAX_HEAD_SIZE
    return in_half_on_gpu(query) and fits
