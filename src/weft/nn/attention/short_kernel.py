"""Triton kernels for attention over short rows: a row's queries, keys and values fit on the chip at once.

One program takes one head of one row. Nothing is kept for the backward pass but the inputs: it computes the weights
again, and the gradients of queries, keys and values together, without atomics.

    forward    P = softmax(scale Q Kᵀ),  O = P V
    backward   dV = Pᵀ dO,  dS = scale P ⊙ (dO Vᵀ - rowsum(P ⊙ dO Vᵀ)),  dQ = dS K,  dK = dSᵀ Q

Queries stand in columns q_at + head · D of a matrix of q_row columns, keys and values likewise, so that what one
product has made is read and its gradient written where it stands.
"""

from __future__ import annotations

import triton  # type: ignore[import-not-found, import-untyped, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, import-untyped, unused-ignore]


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _weights(q, k, count, scale, CAUSAL: tl.constexpr, Q: tl.constexpr, K: tl.constexpr):  # type: ignore[no-untyped-def]
    i, j = tl.arange(0, Q)[:, None], tl.arange(0, K)[None, :]
    seen = j < count
    if CAUSAL:
        seen = seen & (j <= i)
    s = tl.where(seen, tl.dot(q, tl.trans(k), input_precision="ieee") * scale, -1e30)
    p = tl.where(seen, tl.exp(s - tl.max(s, 1)[:, None]), 0.0)
    return p / tl.maximum(tl.sum(p, 1), 1e-30)[:, None]


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def forward(  # type: ignore[no-untyped-def]
    query, memory, out, q_offsets, k_offsets, scale,
    q_row, k_row, q_at, k_at, v_at,
    H: tl.constexpr, D: tl.constexpr, Q: tl.constexpr, K: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """out (N, H·D) of a row's head."""
    h, b = tl.program_id(0), tl.program_id(1)
    first_q, first_k = tl.load(q_offsets + b).to(tl.int64), tl.load(k_offsets + b).to(tl.int64)
    queries, keys = tl.load(q_offsets + b + 1) - first_q, tl.load(k_offsets + b + 1) - first_k
    if queries > 0:
        i, j, d = tl.arange(0, Q)[:, None], tl.arange(0, K)[:, None], tl.arange(0, D)[None, :]
        q = tl.load(query + (first_q + i) * q_row + q_at + h * D + d, mask=i < queries, other=0.0)
        k = tl.load(memory + (first_k + j) * k_row + k_at + h * D + d, mask=j < keys, other=0.0)
        v = tl.load(memory + (first_k + j) * k_row + v_at + h * D + d, mask=j < keys, other=0.0)
        p = _weights(q, k, keys, scale, CAUSAL, Q, K)
        o = tl.dot(p.to(v.dtype), v, input_precision="ieee")
        tl.store(out + (first_q + i) * (H * D) + h * D + d, o.to(out.dtype.element_ty), mask=i < queries)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def backward(  # type: ignore[no-untyped-def]
    query, memory, grad_out, grad_query, grad_memory, q_offsets, k_offsets, scale,
    q_row, k_row, q_at, k_at, v_at,
    H: tl.constexpr, D: tl.constexpr, Q: tl.constexpr, K: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """The gradients of a row's head, laid out as queries, keys and values are."""
    h, b = tl.program_id(0), tl.program_id(1)
    first_q, first_k = tl.load(q_offsets + b).to(tl.int64), tl.load(k_offsets + b).to(tl.int64)
    queries, keys = tl.load(q_offsets + b + 1) - first_q, tl.load(k_offsets + b + 1) - first_k
    i, j, d = tl.arange(0, Q)[:, None], tl.arange(0, K)[:, None], tl.arange(0, D)[None, :]
    q_place = (first_q + i) * q_row + q_at + h * D + d
    k_place, v_place = (first_k + j) * k_row + k_at + h * D + d, (first_k + j) * k_row + v_at + h * D + d
    q = tl.load(query + q_place, mask=i < queries, other=0.0)
    k = tl.load(memory + k_place, mask=j < keys, other=0.0)
    v = tl.load(memory + v_place, mask=j < keys, other=0.0)
    do = tl.load(grad_out + (first_q + i) * (H * D) + h * D + d, mask=i < queries, other=0.0)
    p = _weights(q, k, keys, scale, CAUSAL, Q, K)
    dv = tl.dot(tl.trans(p.to(do.dtype)), do, input_precision="ieee")
    dp = tl.dot(do, tl.trans(v), input_precision="ieee")
    ds = (p * (dp - tl.sum(p * dp, 1)[:, None]) * scale).to(q.dtype)
    dq = tl.dot(ds, k, input_precision="ieee")
    dk = tl.dot(tl.trans(ds), q, input_precision="ieee")
    tl.store(grad_query + q_place, dq.to(grad_query.dtype.element_ty), mask=i < queries)
    tl.store(grad_memory + k_place, dk.to(grad_memory.dtype.element_ty), mask=j < keys)
    tl.store(grad_memory + v_place, dv.to(grad_memory.dtype.element_ty), mask=j < keys)
