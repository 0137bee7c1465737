"""y = x Wᵀ + b, or max(0, y), for a few rows, where all there is to do is to read W once: a Triton program for each few
outputs."""

from __future__ import annotations

import triton  # type: ignore[import-not-found, import-untyped, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, import-untyped, unused-ignore]


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def multiply(  # type: ignore[no-untyped-def]
    x, weight, bias, y, inputs, outputs, x_row, w_row,
    ROWS: tl.constexpr, BIASED: tl.constexpr, RELU: tl.constexpr, M: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """M outputs of all rows; K inputs at a time."""
    m = tl.program_id(0) * M + tl.arange(0, M)
    at = weight + m.to(tl.int64)[:, None] * w_row
    for row in tl.static_range(ROWS):
        total = tl.zeros((M,), tl.float32)
        for first in range(0, inputs, K):
            k = first + tl.arange(0, K)
            w = tl.load(at + k[None, :], (m < outputs)[:, None] & (k < inputs)[None, :], 0).to(tl.float32)
            total += tl.sum(w * tl.load(x + row * x_row + k, k < inputs, 0).to(tl.float32)[None, :], 1)
        if BIASED:
            total += tl.load(bias + m, m < outputs, 0).to(tl.float32)
        if RELU:
            total = tl.where(total < 0, 0.0, total)
        tl.store(y + row * outputs + m, total.to(y.dtype.element_ty), m < outputs)
