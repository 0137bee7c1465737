"""Where kernels of our own can run."""

from __future__ import annotations

import importlib.util
from typing import Final

import torch
from torch import Tensor

HALF: Final = (torch.bfloat16, torch.float16)

HAS_TRITON: Final = importlib.util.find_spec("triton") is not None


def in_half_on_gpu(x: Tensor) -> bool:
    """Whether x has a device and type that the fused kernels for transformers support."""
    return x.is_cuda and x.dtype in HALF


def power_of_two(size: int, *, least: int = 1) -> int:
    """The next power of two, at least `least`: for sizes of tiles, and of tensors that should have few shapes."""
    return max(least, 1 << max(0, size - 1).bit_length())
