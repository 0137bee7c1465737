"""Room for many numbers on large pages: to be given small ones, and so many of them, takes longer than to use them."""

from __future__ import annotations

import mmap
from typing import Final

import torch
from torch import Tensor

PAGE: Final = 1 << 21
LEAST: Final = 2 * PAGE
"""Bytes below which there is nothing to gain."""


def zeros(count: int, like: Tensor) -> Tensor:
    """(count,) zeros in the type of another tensor and beside it; on a CPU on large pages where the system has them."""
    size = count * like.element_size()
    advice = getattr(mmap, "MADV_HUGEPAGE", None)
    if like.device.type != "cpu" or size < LEAST or advice is None:
        return like.new_zeros(count)
    # Mapped memory begins anywhere: with a page more there is one boundary within the first.
    mapped = mmap.mmap(-1, size + PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    try:
        mapped.madvise(advice)
    except OSError:  # a system without them
        return like.new_zeros(count)
    whole = torch.frombuffer(mapped, dtype=like.dtype)  # which keeps it mapped
    first = -whole.data_ptr() % PAGE // like.element_size()
    return whole[first : first + count]
