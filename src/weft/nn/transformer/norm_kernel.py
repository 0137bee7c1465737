"""Triton kernels for s = x + dropout(f) and LN(s), in one pass each way.

    forward    y = γ x̂ + β,  x̂ = (s - mean) / √(variance + ε)
    backward   ds = (γ dy - mean(γ dy) - x̂ mean(γ dy ⊙ x̂)) / √(variance + ε),  df = dropout(ds)
               dγ = Σ dy ⊙ x̂,  dβ = Σ dy

What was dropped is not kept: both passes derive it from one seed and the place of each number. R rows of D columns in a
program at a time; in the backward pass a program takes many such tiles, and sums what it saw of dγ and dβ.
"""

from __future__ import annotations

import triton  # type: ignore[import-not-found, import-untyped, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, import-untyped, unused-ignore]


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _kept(seed, place, threshold):  # type: ignore[no-untyped-def]
    """Whether a number stays: a well mixed hash of its place (the finalizer of MurmurHash3) against the threshold."""
    h = place.to(tl.uint32) * 0x9E3779B1 + seed.to(tl.uint32)
    h = (h ^ (h >> 16)) * 0x85EBCA6B
    h = (h ^ (h >> 13)) * 0xC2B2AE35
    h = h ^ (h >> 16)
    return (h >> 8).to(tl.int32) >= threshold


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def forward(  # type: ignore[no-untyped-def]
    x, f, gamma, beta, y, s, means, scales, seed, count, threshold, keep, epsilon,
    WIDTH: tl.constexpr, R: tl.constexpr, D: tl.constexpr, ADD: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    """y, and for the backward pass s (where there is something to add), the means and the scales of rows."""
    r = (tl.program_id(0) * R + tl.arange(0, R))[:, None].to(tl.int64)
    c = tl.arange(0, D)[None, :]
    real = (r < count) & (c < WIDTH)
    v = tl.load(x + r * WIDTH + c, mask=real, other=0.0).to(tl.float32)
    if ADD:
        added = tl.load(f + r * WIDTH + c, mask=real, other=0.0).to(tl.float32)
        if DROP:
            added = tl.where(_kept(tl.load(seed), r * WIDTH + c, threshold), added * keep, 0.0)
        rounded = (v + added).to(s.dtype.element_ty)
        tl.store(s + r * WIDTH + c, rounded, mask=real)
        v = rounded.to(tl.float32)
    mean = tl.sum(v, 1)[:, None] / WIDTH
    centred = tl.where(real, v - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, 1)[:, None] / WIDTH + epsilon)
    g, b = tl.load(gamma + c, mask=c < WIDTH, other=0.0), tl.load(beta + c, mask=c < WIDTH, other=0.0)
    out = centred * scale * g.to(tl.float32) + b.to(tl.float32)
    tl.store(y + r * WIDTH + c, out.to(y.dtype.element_ty), mask=real)
    tl.store(means + r, mean, mask=r < count)
    tl.store(scales + r, scale, mask=r < count)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def backward(  # type: ignore[no-untyped-def]
    dy, s, gamma, means, scales, ds, df, dgamma, dbeta, seed, count, threshold, keep,
    WIDTH: tl.constexpr, R: tl.constexpr, D: tl.constexpr, DROP: tl.constexpr, TILES: tl.constexpr,
):  # fmt: skip
    """ds, df where something was dropped, and this program's share of dγ and dβ."""
    program = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, D)[None, :]
    g = tl.load(gamma + c, mask=c < WIDTH, other=0.0).to(tl.float32)
    sum_g, sum_b = tl.zeros((1, D), dtype=tl.float32), tl.zeros((1, D), dtype=tl.float32)
    for tile in range(TILES):
        r = ((program * TILES + tile) * R + tl.arange(0, R)).to(tl.int64)[:, None]
        real = (r < count) & (c < WIDTH)
        d = tl.load(dy + r * WIDTH + c, mask=real, other=0.0).to(tl.float32)
        v = tl.load(s + r * WIDTH + c, mask=real, other=0.0).to(tl.float32)
        mean, scale = tl.load(means + r, mask=r < count, other=0.0), tl.load(scales + r, mask=r < count, other=0.0)
        hat = tl.where(real, (v - mean) * scale, 0.0)
        sum_g += tl.sum(d * hat, 0)[None, :]
        sum_b += tl.sum(d, 0)[None, :]
        d = d * g
        d = (d - tl.sum(d, 1)[:, None] / WIDTH - hat * (tl.sum(d * hat, 1)[:, None] / WIDTH)) * scale
        tl.store(ds + r * WIDTH + c, d.to(ds.dtype.element_ty), mask=real)
        if DROP:
            d = tl.where(_kept(tl.load(seed), r * WIDTH + c, threshold), d * keep, 0.0)
            tl.store(df + r * WIDTH + c, d.to(df.dtype.element_ty), mask=real)
    tl.store(dgamma + program * WIDTH + c, sum_g, mask=c < WIDTH)
    tl.store(dbeta + program * WIDTH + c, sum_b, mask=c < WIDTH)
