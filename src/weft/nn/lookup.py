"""The vectors of tokens with those of their places, on a GPU in one kernel: what every step of writing begins with."""

from __future__ import annotations

import torch
from torch import Tensor

from weft.nn.kernels import HAS_TRITON, power_of_two


def serves(table: Tensor) -> bool:
    """Whether the kernel is made for a table of vectors."""
    return HAS_TRITON and table.is_cuda and table.dtype != torch.float64 and not torch.is_grad_enabled()


def look_up(tokens: Tensor, table: Tensor, scale: float, places: Tensor, added: Tensor | None) -> Tensor:
    """table (V, D)[tokens (N,)] · scale + added (T, D)[places (N,)] -> (N, D) in the type of the table."""
    from weft.nn.lookup_kernel import look_up as kernel

    width = table.size(1)
    x = table.new_empty(tokens.numel(), width)
    kernel[(tokens.numel(),)](
        tokens, table, scale, places, added, x, width, ADDED=added is not None, D=power_of_two(width), num_warps=4
    )
    return x
