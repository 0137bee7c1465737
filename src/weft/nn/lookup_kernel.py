"""x = table[token] · scale + added[place], rounded as torch rounds: a Triton program for each row."""

from __future__ import annotations

import triton  # type: ignore[import-not-found, import-untyped, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, import-untyped, unused-ignore]


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def look_up(  # type: ignore[no-untyped-def]
    tokens, table, scale, places, added, x, width, ADDED: tl.constexpr, D: tl.constexpr
):
    """D: the width, padded."""
    n, d = tl.program_id(0).to(tl.int64), tl.arange(0, D)
    token = tl.load(tokens + n)
    vector = (tl.load(table + token * width + d, d < width, 0).to(tl.float32) * scale).to(x.dtype.element_ty)
    if ADDED:
        place = tl.load(places + n)
        wave = tl.load(added + place * width + d, d < width, 0).to(x.dtype.element_ty)
        vector = (vector.to(tl.float32) + wave.to(tl.float32)).to(x.dtype.element_ty)
    tl.store(x + n * width + d, vector, d < width)
