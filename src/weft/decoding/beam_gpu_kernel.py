"""One step of beam search in two Triton kernels: the likeliest tokens of each row, and the new beam of each sentence.

The plain version is beam.py. A slots, K hypotheses of each, N = A·K rows, V tokens in C parts.
"""

from __future__ import annotations

import triton  # type: ignore[import-not-found, import-untyped, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, import-untyped, unused-ignore]


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def pick(  # type: ignore[no-untyped-def]
    logits, banned, step, first, top, ids, highest, totals, end, vocabulary, row_size, least, eos,
    K: tl.constexpr, KP: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Reduce one part of a row's logits: the K highest of tokens that are allowed and do not end the text, their ids,
    maximum and sum for the softmax; and the logit of the end token, if it is in this part."""
    n, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    at = n * tl.num_programs(1) + part
    token = part * BLOCK + tl.arange(0, BLOCK)
    real = token < vocabulary
    x = tl.load(logits + n * row_size + token, real, float("-inf")).to(tl.float32)
    peak = tl.max(x, 0)
    base = tl.where(peak == float("-inf"), 0.0, peak)
    tl.store(highest + at, peak)
    tl.store(totals + at, tl.sum(tl.exp(x - base), 0))
    length = tl.load(step + n // K) + 1 - tl.load(first + n // K)
    never = tl.load(banned + token, real, 1) != 0
    x = tl.where(never | ((token == eos) & (length <= least)), float("-inf"), x)
    tl.store(end + n, tl.max(tl.where(token == eos, x, float("-inf")), 0), part == eos // BLOCK)
    x = tl.where(token == eos, float("-inf"), x)
    for k in tl.static_range(K):
        best, place = tl.max(x, 0, return_indices=True)
        tl.store(top + at * KP + k, best)
        tl.store(ids + at * KP + k, part * BLOCK + place)
        x = tl.where(token == part * BLOCK + place, float("-inf"), x)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def advance(  # type: ignore[no-untyped-def]
    top, ids, highest, totals, end,
    live, step, first, limit, prefix, tokens, sums, best, best_log, best_step, best_place, ended, back, logs, rows,
    parts, prefix_size, steps_size, alpha,
    K: tl.constexpr, KP: tl.constexpr, B: tl.constexpr, BP: tl.constexpr, CP: tl.constexpr,
):  # fmt: skip
    """Advance one slot from the reduced logits: see advance_beam. KP, BP, CP are K, n_best and C, padded."""
    a = tl.program_id(0).to(tl.int64)
    r, c, j = tl.arange(0, KP), tl.arange(0, CP), tl.arange(0, BP)
    now, begin = tl.load(step + a), tl.load(first + a)
    most, is_live = tl.load(limit + a), tl.load(live + a) != 0
    length, inside = now + 1 - begin, now < begin
    power = tl.exp(alpha * tl.log(tl.maximum(length, 1).to(tl.float32)))

    # log Σ exp of each row, from its parts.
    here = (r < K)[:, None] & (c < parts)[None, :]
    at = (a * K + r)[:, None] * parts + c[None, :]
    peaks = tl.load(highest + at, here, float("-inf"))
    peak = tl.max(peaks, 1)
    base = tl.where(peak == float("-inf"), 0.0, peak)
    scaled = tl.load(totals + at, here, 0.0) * tl.exp(peaks - base[:, None])
    mass = tl.sum(scaled, 1)
    norm = base + tl.log(tl.where(mass > 0, mass, 1.0))
    was = tl.load(sums + a * K + r, r < K, float("-inf"))

    # All candidates of all rows, as one vector.
    i = tl.arange(0, KP * CP * KP)
    row, column = i // (CP * KP), i % (CP * KP)
    valid = (row < K) & (column // KP < parts) & (column % KP < K)
    own = (a * K + row) * parts * KP + column
    value = tl.load(top + own, valid, float("-inf"))
    offset = tl.sum(tl.where(row[:, None] == r[None, :], (was - norm)[None, :], 0.0), 1)
    total = tl.where(valid, value + offset, float("-inf"))

    forced = tl.load(prefix + a * prefix_size + tl.minimum(now, prefix_size - 1))
    finished = tl.load(best + a * B + j, j < B, float("inf"))
    finished_log = tl.load(best_log + a * B + j, j < B, 0.0)
    finished_step = tl.load(best_step + a * B + j, j < B, 0)
    finished_place = tl.load(best_place + a * B + j, j < B, 0)
    count = tl.load(ended + a)
    end_log = tl.load(end + a * K + r, r < K, float("-inf")) - norm
    ends = tl.where((was == float("-inf")) | inside, float("-inf"), was + end_log)
    higher = tl.sum((ends[None, :] > ends[:, None]).to(tl.int32), 1)
    reach = float("-inf")
    for k in tl.static_range(K):
        found, pick = tl.max(total, 0, return_indices=True)
        total = tl.where(i == pick, float("-inf"), total)
        empty = found == float("-inf")
        parent = tl.where(empty | inside, 0, pick // (CP * KP)).to(tl.int64)
        cell = (a * K + parent) * parts * KP + tl.where(empty, 0, pick % (CP * KP))
        token = tl.where(inside, forced, tl.load(ids + cell))
        log = tl.load(top + cell) - tl.sum(tl.where(r == parent, norm, 0.0), 0)
        alone = 0.0 if k == 0 else float("-inf")
        new = tl.where(inside, alone, found)
        tl.store(back + a * steps_size + now * K + k, token * K + parent)
        tl.store(logs + a * steps_size + now * K + k, log)
        tl.store(tokens + a * K + k, token)
        tl.store(rows + a * K + k, a * K + parent)
        higher += (new > ends).to(tl.int32)
        reach = tl.maximum(reach, new)
        tl.store(sums + a * K + k, new, is_live)

    # Ends that are among the K likeliest of all.
    ends = tl.where((higher < K) & is_live, ends, float("-inf"))
    count += tl.sum((ends > float("-inf")).to(tl.int64), 0)
    for k in tl.static_range(K):
        score = tl.max(tl.where(r == k, ends, float("-inf")), 0) / power
        lowest, place = tl.min(finished, 0, return_indices=True)
        joins = (score > lowest) & (j == place)
        finished_log = tl.where(joins, tl.sum(tl.where(r == k, end_log, 0.0), 0), finished_log)
        finished_step = tl.where(joins, now, finished_step)
        finished_place = tl.where(joins, k, finished_place)
        finished = tl.where(joins, score, finished)
    tl.store(best + a * B + j, finished, j < B)
    tl.store(best_log + a * B + j, finished_log, j < B)
    tl.store(best_step + a * B + j, finished_step, j < B)
    tl.store(best_place + a * B + j, finished_place, j < B)
    tl.store(ended + a, count)

    bound = reach / tl.exp(alpha * tl.log(most.to(tl.float32)))
    stops = (length >= most) | (bound <= tl.min(finished, 0))
    if K == 1:
        stops = stops | (count >= 1)
    tl.store(step + a, now + is_live.to(tl.int64))
    tl.store(live + a, is_live & (stops == 0))
