"""One query of each row over what is stored: a Triton program per row and head. See past.py and multihead.py.

N rows, T positions of the store, D features of a head's queries and keys, V of its values.
"""

from __future__ import annotations

import triton  # type: ignore[import-not-found, import-untyped, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, import-untyped, unused-ignore]


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def attend(  # type: ignore[no-untyped-def]
    q, k, v, keys, values, origin, length, mask, out, scale, end,
    q_row, k_row, v_row, key_row, key_step, key_head, value_row, value_step, value_head, origin_row, mask_row,
    APPEND: tl.constexpr, MOVED: tl.constexpr, MASKED: tl.constexpr, EACH: tl.constexpr, EARLY: tl.constexpr,
    D: tl.constexpr, DP: tl.constexpr, V: tl.constexpr, VP: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """APPEND: k and v of this position are written to the store and read; row n reads its own store, or where MOVED
    that of origin[n, t], which is its own at this position. Otherwise EACH rows read one store of `end` positions,
    where the mask allows. EARLY: values are loaded before keys have arrived, which needs registers for both."""
    n, h = tl.program_id(0).to(tl.int64), tl.program_id(1)
    d, e = tl.arange(0, DP), tl.arange(0, VP)
    query = tl.load(q + n * q_row + h * D + d, d < D, 0).to(tl.float32) * scale
    if APPEND:
        end = tl.load(length + n)
        new_key = tl.load(k + n * k_row + h * D + d, d < D, 0)
        new_value = tl.load(v + n * v_row + h * V + e, e < V, 0)
        tl.store(keys + n * key_row + end * key_step + h * key_head + d, new_key, d < D)
        tl.store(values + n * value_row + end * value_step + h * value_head + e, new_value, e < V)
        highest = tl.sum(query * new_key.to(tl.float32), 0)
        total = 1.0
        context = new_value.to(tl.float32)
        row = n
        if MOVED:
            tl.store(origin + n * origin_row + end, n, h == 0)
    else:
        highest = float("-inf")
        total = 0.0
        context = tl.zeros((VP,), tl.float32)
        row = n // EACH
    for first in range(0, end, BLOCK):
        t = first + tl.arange(0, BLOCK)
        real = t < end
        seen = real
        if MASKED:
            seen = real & (tl.load(mask + row * mask_row + t, real, 0) != 0)
        if MOVED:  # noqa: SIM108 (decided when the kernel is compiled)
            rows = tl.load(origin + n * origin_row + t, real, 0)
        else:
            rows = row + tl.zeros((BLOCK,), tl.int64)
        key_at = keys + (rows * key_row + t * key_step)[:, None] + h * key_head + d[None, :]
        value_at = values + (rows * value_row + t * value_step)[:, None] + h * value_head + e[None, :]
        block = tl.load(key_at, real[:, None] & (d < D)[None, :], 0)
        if EARLY:  # one wait for both
            given = tl.load(value_at, real[:, None] & (e < V)[None, :], 0)
        scores = tl.where(seen, tl.sum(block.to(tl.float32) * query[None, :], 1), float("-inf"))
        now = tl.maximum(highest, tl.max(scores, 0))
        base = tl.where(now == float("-inf"), 0.0, now)
        shares = tl.exp(scores - base)
        fade = tl.exp(highest - base)
        if not EARLY:
            given = tl.load(value_at, real[:, None] & (e < V)[None, :], 0)
        if MASKED:  # nothing times what a mask hides need not be nothing
            given = tl.where(seen[:, None], given, 0.0)
        context = context * fade + tl.sum(given.to(tl.float32) * shares[:, None], 0)
        total = total * fade + tl.sum(shares, 0)
        highest = now
    context = tl.where(total > 0, context / tl.maximum(total, 1e-30), 0.0)
    tl.store(out + (n * tl.num_programs(1) + h) * V + e, context.to(out.dtype.element_ty), e < V)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def attend_together(  # type: ignore[no-untyped-def]
    q, keys, values, mask, out, scale, end,
    q_row, key_row, key_step, key_head, value_row, value_step, value_head, mask_row,
    MASKED: tl.constexpr, EACH: tl.constexpr, QP: tl.constexpr,
    D: tl.constexpr, DP: tl.constexpr, V: tl.constexpr, VP: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """EACH rows, padded to QP, over the one store that they share; a program per sentence and head."""
    a, h = tl.program_id(0).to(tl.int64), tl.program_id(1)
    g, d, e = tl.arange(0, QP), tl.arange(0, DP), tl.arange(0, VP)
    rows = a * EACH + g
    here = (g < EACH)[:, None]
    query = tl.load(q + rows[:, None] * q_row + h * D + d[None, :], here & (d < D)[None, :], 0)
    highest = tl.full((QP,), float("-inf"), tl.float32)
    total = tl.zeros((QP,), tl.float32)
    context = tl.zeros((QP, VP), tl.float32)
    for first in range(0, end, BLOCK):
        t = first + tl.arange(0, BLOCK)
        seen = t < end
        if MASKED:
            seen = seen & (tl.load(mask + a * mask_row + t, seen, 0) != 0)
        key_at = keys + a * key_row + h * key_head + t[None, :] * key_step + d[:, None]
        block = tl.load(key_at, seen[None, :] & (d < D)[:, None], 0)
        scores = tl.where(seen[None, :], tl.dot(query, block, input_precision="ieee") * scale, float("-inf"))
        now = tl.maximum(highest, tl.max(scores, 1))
        base = tl.where(now == float("-inf"), 0.0, now)
        shares = tl.exp(scores - base[:, None])
        fade = tl.exp(highest - base)
        value_at = values + a * value_row + h * value_head + t[:, None] * value_step + e[None, :]
        block = tl.load(value_at, seen[:, None] & (e < V)[None, :], 0)
        context = context * fade[:, None] + tl.dot(shares.to(block.dtype), block, input_precision="ieee")
        total = total * fade + tl.sum(shares, 1)
        highest = now
    context = tl.where(total[:, None] > 0, context / tl.maximum(total, 1e-30)[:, None], 0.0)
    to = out + (rows[:, None] * tl.num_programs(1) + h) * V + e[None, :]
    tl.store(to, context.to(out.dtype.element_ty), here & (e < V)[None, :])
