"""Conditions for Triton kernels, and a way to launch them often."""

from __future__ import annotations

import importlib.util
from collections.abc import Hashable
from typing import Any, Final

import torch
from torch import Tensor

HALF: Final = (torch.bfloat16, torch.float16)

HAS_TRITON: Final = importlib.util.find_spec("triton") is not None


def in_half_on_gpu(x: Tensor) -> bool:
    """Whether fused kernels for transformers can run: on CUDA, in half precision."""
    return x.is_cuda and x.dtype in HALF


class Launcher:
    """Launches Triton kernels; what was compiled for a key is launched again without a look at each argument.

    Triton looks at the type and the value of every argument in every launch, which takes longer than many a kernel. So
    the key has to tell apart what a kernel is compiled for: types, and options.
    """

    def __init__(self) -> None:
        self._compiled: dict[Hashable, Any] = {}

    def launch(
        self, function: Any, grid: tuple[int, int, int], arguments: list[Any], options: dict[str, Any], *,
        warps: int, key: Hashable,
    ) -> None:  # fmt: skip
        """Launch a kernel with its arguments in their order, then its constants in theirs."""
        if (compiled := self._compiled.get(key)) is None:
            # Triton's interpreter compiles nothing and returns None.
            self._compiled[key] = function[grid](*arguments, **options, num_warps=warps, num_stages=1)
        else:
            compiled[grid](*arguments, *options.values())


def power_of_two(size: int, *, least: int = 1) -> int:
    """The next power of two, but no less than `least`: sizes of tiles, and of what should come in few shapes."""
    return max(least, 1 << max(0, size - 1).bit_length())
