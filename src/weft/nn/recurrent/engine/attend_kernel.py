"""Attention of a recurrent step on a GPU: a Triton program for each row, forward and backward. See attend_cuda.py.

A program goes over the source in blocks, twice: forward for the context, then for the weights; backward for their mean
gradient, then for those of the scores. What it reads the second time is in the cache.

The table is that of the other kernels of a step (triton_kernel.py): KEYS, VALUES and so on are where a direction has
the address of a tensor. A is the size of queries and keys, V of values; AP and VP are these, padded to a power of two.
"""

from __future__ import annotations

import triton  # type: ignore[import-not-found, import-untyped, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, import-untyped, unused-ignore]


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def hyperbolic(x):  # type: ignore[no-untyped-def]
    e = tl.exp(-2.0 * tl.abs(x))
    t = (1.0 - e) / (1.0 + e)
    return tl.where(x < 0, -t, t)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def scores_of(key, q, over, scale, here, ADDITIVE: tl.constexpr):  # type: ignore[no-untyped-def]
    """key (BLOCK, AP), q and over (AP,) -> scores (BLOCK,), -inf where there is no position."""
    if ADDITIVE:  # noqa: SIM108 (decided when the kernel is compiled)
        scores = tl.sum(hyperbolic(key + q[None, :]) * over[None, :], 1)
    else:
        scores = tl.sum(key * q[None, :], 1)
    return tl.where(here, scores * scale, float("-inf"))


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def place_of(table, lengths, b, d, j, HEADER: tl.constexpr, ENTRIES: tl.constexpr, LENGTHS: tl.constexpr):  # type: ignore[no-untyped-def]
    """The entries of the direction; whether row b is real, and alive in this step; the place of the step."""
    own = table + HEADER + d * ENTRIES
    batch, length, s, reverse = tl.load(table), tl.load(table + 1), tl.load(table + 2) + j, tl.load(own)
    at = b * length
    if LENGTHS:
        length = tl.load(lengths + b)
    real = b < batch
    alive = real & (s < length)
    return own, real, alive, at + tl.where(alive & (reverse > 0), length - 1 - s, s)


@triton.jit(do_not_specialize=["j"])  # type: ignore[untyped-decorator, unused-ignore]
def attend(  # type: ignore[no-untyped-def]
    table, lengths, query, context, j, scale,
    HEADER: tl.constexpr, ENTRIES: tl.constexpr, LENGTHS: tl.constexpr, DTYPE: tl.constexpr, HARD: tl.constexpr,
    KEYS: tl.constexpr, VALUES: tl.constexpr, SOURCE: tl.constexpr, WEIGHTS: tl.constexpr, OVER: tl.constexpr,
    A: tl.constexpr, AP: tl.constexpr, V: tl.constexpr, VP: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The context of this step's query, and the weights over the source. OVER is 0 where scores are products."""
    b, d, B = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.num_programs(0)
    own, real, alive, at = place_of(table, lengths, b, d, j, HEADER, ENTRIES, LENGTHS)
    steps, r = tl.load(table + 3), d * B + b
    count = tl.load(tl.load(own + SOURCE).to(tl.pointer_type(tl.int64)) + b, mask=alive, other=0)
    keys = tl.load(own + KEYS).to(tl.pointer_type(DTYPE)) + b * steps * A
    values = tl.load(own + VALUES).to(tl.pointer_type(DTYPE)) + b * steps * V
    weights = tl.load(own + WEIGHTS).to(tl.pointer_type(tl.float32)) + at * steps
    k, v = tl.arange(0, AP), tl.arange(0, VP)
    q = tl.load(query + r * A + k, mask=k < A, other=0.0).to(tl.float32)
    over = q
    if OVER:
        over = tl.load(tl.load(own + OVER).to(tl.pointer_type(tl.float32)) + k, mask=real & (k < A), other=0.0)
    highest = float("-inf")
    total = 0.0
    best = count * 0
    found = tl.zeros([VP], tl.float32)
    for first in range(0, count, BLOCK):
        p = first + tl.arange(0, BLOCK)
        here = p < count
        at_key, at_value = p[:, None] * A + k[None, :], p[:, None] * V + v[None, :]
        key = tl.load(keys + at_key, mask=here[:, None] & (k < A)[None, :], other=0.0).to(tl.float32)
        scores = scores_of(key, q, over, scale, here, OVER > 0)
        most = tl.max(scores, 0)
        now = tl.maximum(highest, most)
        fade, shares = tl.exp(highest - now), tl.exp(scores - now)
        if HARD:
            best = tl.where(most > highest, first + tl.argmax(scores, 0), best)
        else:
            value = tl.load(values + at_value, mask=here[:, None] & (v < V)[None, :], other=0.0).to(tl.float32)
            found = found * fade + tl.sum(value * shares[:, None], 0)
        total = total * fade + tl.sum(shares, 0)
        highest = now
    total = tl.where(count > 0, total, 1.0)
    if HARD:
        found = tl.load(values + best * V + v, mask=(count > 0) & (v < V), other=0.0).to(tl.float32)
    else:
        found = found / total
    tl.store(context + r * V + v, found, mask=v < V)
    for first in range(0, steps, BLOCK):
        p = first + tl.arange(0, BLOCK)
        here = p < count
        at_key = p[:, None] * A + k[None, :]
        key = tl.load(keys + at_key, mask=here[:, None] & (k < A)[None, :], other=0.0).to(tl.float32)
        scores = scores_of(key, q, over, scale, here, OVER > 0)
        share = tl.where(here, tl.exp(scores - highest) / total, 0.0)
        tl.store(weights + p, share, mask=real & (p < steps))


@triton.jit(do_not_specialize=["j"])  # type: ignore[untyped-decorator, unused-ignore]
def attend_back(  # type: ignore[no-untyped-def]
    table, lengths, gradient, grad_query, j, scale,
    HEADER: tl.constexpr, ENTRIES: tl.constexpr, LENGTHS: tl.constexpr, DTYPE: tl.constexpr,
    KEYS: tl.constexpr, VALUES: tl.constexpr, SOURCE: tl.constexpr, WEIGHTS: tl.constexpr, OVER: tl.constexpr,
    QUERIES: tl.constexpr, GRAD_SCORES: tl.constexpr, GRAD_KEYS: tl.constexpr, GRAD_OVER: tl.constexpr,
    A: tl.constexpr, AP: tl.constexpr, V: tl.constexpr, VP: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The gradients of the query and of the scores, from that of the context. With OVER those of the keys and of the
    vector are added to what they have; otherwise one product after the loop makes them of all steps."""
    b, d, B = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.num_programs(0)
    own, real, alive, at = place_of(table, lengths, b, d, j, HEADER, ENTRIES, LENGTHS)
    steps, r = tl.load(table + 3), d * B + b
    count = tl.load(tl.load(own + SOURCE).to(tl.pointer_type(tl.int64)) + b, mask=alive, other=0)
    keys = tl.load(own + KEYS).to(tl.pointer_type(DTYPE)) + b * steps * A
    values = tl.load(own + VALUES).to(tl.pointer_type(DTYPE)) + b * steps * V
    weights = tl.load(own + WEIGHTS).to(tl.pointer_type(tl.float32)) + at * steps
    for_scores = tl.load(own + GRAD_SCORES).to(tl.pointer_type(DTYPE)) + at * steps
    k, v = tl.arange(0, AP), tl.arange(0, VP)
    g = tl.load(gradient + r * V + v, mask=v < V, other=0.0).to(tl.float32)
    for_query = tl.zeros([AP], tl.float32)
    for_over = tl.zeros([AP], tl.float32)
    if OVER:
        over = tl.load(tl.load(own + OVER).to(tl.pointer_type(tl.float32)) + k, mask=real & (k < A), other=0.0)
        queries = tl.load(own + QUERIES).to(tl.pointer_type(DTYPE)) + at * A
        q = tl.load(queries + k, mask=alive & (k < A), other=0.0).to(tl.float32)
        for_keys = tl.load(own + GRAD_KEYS).to(tl.pointer_type(tl.float32)) + b * steps * A
    mean = 0.0
    for first in range(0, count, BLOCK):
        p = first + tl.arange(0, BLOCK)
        at_value, inside = p[:, None] * V + v[None, :], (p < count)[:, None] & (v < V)[None, :]
        value = tl.load(values + at_value, mask=inside, other=0.0).to(tl.float32)
        weight = tl.load(weights + p, mask=p < count, other=0.0)
        mean += tl.sum(weight * tl.sum(value * g[None, :], 1), 0)
    for first in range(0, steps, BLOCK):
        p = first + tl.arange(0, BLOCK)
        at_value, inside = p[:, None] * V + v[None, :], (p < count)[:, None] & (v < V)[None, :]
        value = tl.load(values + at_value, mask=inside, other=0.0).to(tl.float32)
        weight = tl.load(weights + p, mask=p < count, other=0.0)
        scores = scale * weight * (tl.sum(value * g[None, :], 1) - mean)
        tl.store(for_scores + p, scores, mask=real & (p < steps))
        at_key, inside = p[:, None] * A + k[None, :], (p < count)[:, None] & (k < A)[None, :]
        key = tl.load(keys + at_key, mask=inside, other=0.0).to(tl.float32)
        if OVER:
            t = hyperbolic(key + q[None, :])
            for_key = scores[:, None] * over[None, :] * (1.0 - t * t)
            for_query += tl.sum(for_key, 0)
            for_over += tl.sum(scores[:, None] * t, 0)
            tl.store(for_keys + at_key, tl.load(for_keys + at_key, mask=inside, other=0.0) + for_key, mask=inside)
        else:
            for_query += tl.sum(key * scores[:, None], 0)
    tl.store(grad_query + r * A + k, for_query, mask=k < A)
    if OVER:
        sums = tl.load(own + GRAD_OVER).to(tl.pointer_type(tl.float32)) + b * A + k
        tl.store(sums, tl.load(sums, mask=real & (k < A), other=0.0) + for_over, mask=real & (k < A))
