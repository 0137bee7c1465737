"""Matrix products in float32 on a CPU (product.c), for processors on which torch's are slow.

torch's products are those of MKL, which uses AVX-512 on processors of Intel alone: on others that have it, ours take
half the time. So the processor decides, and never the clock: a run that is resumed must give the same bits.
"""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from weft.nn.native import pages
from weft.nn.native.library import ARITHMETIC, CFile, Library

LIBRARY: Final = Library(ARITHMETIC, CFile("weft.nn.native", "product.c"))

MIN_TERMS: Final = 1 << 20
"""Multiplications from which on a call of C costs nothing beside them."""


def multiply(x: Tensor, weight: Tensor, *, bias: Tensor | None = None, out: Tensor | None = None) -> Tensor:
    """x (N, K) @ weight (K, M) + bias (M,) -> `out` (N, M), by default new; on a CPU in pooled memory (pages.py)."""
    rows, depth, width = *x.shape, weight.size(1)
    made = pages.empty(rows, width, x) if out is None else out
    given = (x, weight, made) if bias is None else (x, weight, made, bias)
    if not serves(*given, terms=rows * depth * width) or not x.stride(1) == made.stride(1) == 1:
        return torch.mm(x, weight, out=made) if bias is None else torch.addmm(bias, x, weight, out=made)
    bias = bias if bias is None else bias.contiguous()
    LIBRARY.call("multiply", x, x.stride(0), weight, *weight.stride(), bias, made, made.stride(0), rows, depth, width)
    return made


def multiply_transposed(left: Tensor, right: Tensor, *, total: Tensor | None = None) -> Tensor:
    """left (N, M), right (N, K) -> leftᵀ @ right (M, K), added to `total` where that is given."""
    depth, rows, width = *left.shape, right.size(1)
    given = (left, right) if total is None else (left, right, total)
    if not serves(*given, terms=depth * rows * width) or any(x.stride(1) != 1 for x in given):
        return left.t() @ right if total is None else total.addmm_(left.t(), right)
    made = left.new_empty(rows, width) if total is None else total
    LIBRARY.call(
        "multiply_transposed", left, left.stride(0), right, right.stride(0), made, made.stride(0), depth, rows, width,
        int(total is not None),
    )  # fmt: skip
    return made


def serves(*tensors: Tensor, terms: int) -> bool:
    """Whether ours is the faster product of these tensors, with so many multiplications, and nothing but this
    computation sees it."""
    if terms < MIN_TERMS or torch.compiler.is_compiling():
        return False
    if torch._C._len_torch_dispatch_stack() or torch._C._get_tracing_state():
        return False
    return all(x.device.type == "cpu" and x.dtype == torch.float32 for x in tensors) and beats_torch()


@cache
def beats_torch() -> bool:
    """Whether our products are faster than torch's on this processor, and compiled."""
    if not torch.backends.mkl.is_available() or torch.backends.cpu.get_cpu_capability() != "AVX512":  # type: ignore[no-untyped-call]
        return False
    return _vendor() != "GenuineIntel" and LIBRARY.load() is not None


def _vendor() -> str:
    """The maker of the processor, as it names itself."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "GenuineIntel" if "Intel" in platform.processor() else ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("vendor_id")), "")
