"""Attention of one query per row on a GPU, in one kernel: to the KV cache, or to a source that several rows share.

N rows, H heads, m features of a head's queries and keys, v of its values.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from weft.nn.kernels import HAS_TRITON, power_of_two

PROGRAMS_POSITIONS_WARPS: Final = ((264, 64, 4), (1056, 64, 2), (1 << 62, 32, 1))
"""Up to a number of programs: positions that one reads at once, and its warps. Few programs should be fast, many
small."""

MAX_HEAD_SIZE: Final = 256
"""Features of a head that a program can hold."""


def serves(q: Tensor) -> bool:
    """Whether the kernel is made for queries (…, m)."""
    fits = q.dtype != torch.float64 and q.size(-1) <= MAX_HEAD_SIZE
    return HAS_TRITON and q.is_cuda and fits and not torch.is_grad_enabled()


def attend_next(
    q: Tensor, k: Tensor, v: Tensor, keys: Tensor, values: Tensor, origin: Tensor | None, length: Tensor, scale: float
) -> Tensor:
    """q, k (N, H, m), v (N, H, v), keys (N, H, T, m), values (N, H, T, v), of which each row has its length (N,), found
    in the rows origin (N, T) -> (N, H, v). k and v are written to the store, and origin says where."""
    from weft.nn.attention.single_query_kernel import attend

    _check(q, k, v)
    out = v.new_empty(v.shape)
    attend[(q.size(0), q.size(1))](
        q, k, v, keys, values, origin, length, None, out, scale, 0,
        q.stride(0), k.stride(0), v.stride(0), *_places(keys), *_places(values),
        0 if origin is None else origin.stride(0), 0,
        APPEND=True, MOVED=origin is not None, MASKED=False, EACH=1,
        **_sizes(keys, values), **_launch(q.size(0) * q.size(1)),
    )  # fmt: skip
    return out


def attend_shared(q: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """q (A, K, H, m), keys (A, H, S, m), values (A, H, S, v), mask (A, S) -> (A, K, H, v): K rows read one source."""
    from weft.nn.attention.single_query_kernel import attend, attend_together

    slot_width = q.size(1)
    rows, out = q.flatten(0, 1), values.new_empty(*q.shape[:3], values.size(3))
    _check(rows)
    places = [*_places(keys), *_places(values)]
    masks = 0 if mask is None else mask.stride(0)
    if slot_width == 1:
        attend[(rows.size(0), rows.size(1))](
            rows, None, None, keys, values, None, None, mask, out, scale, keys.size(2),
            rows.stride(0), 0, 0, *places, 0, masks,
            APPEND=False, MOVED=False, MASKED=mask is not None, EACH=1,
            **_sizes(keys, values), **(_launch(rows.size(0) * rows.size(1)) | {"BLOCK": 64}),
        )  # fmt: skip
    else:
        attend_together[(keys.size(0), rows.size(1))](
            rows, keys, values, mask, out, scale, keys.size(2), rows.stride(0), *places, masks,
            MASKED=mask is not None, EACH=slot_width, QP=power_of_two(slot_width, least=16), **_sizes(keys, values),
            BLOCK=64, num_warps=4,
        )  # fmt: skip
    return out


def _places(store: Tensor) -> tuple[int, int, int]:
    """Strides by row, position and head, as the kernels count, of a store (N, H, T, …)."""
    return store.stride(0), store.stride(2), store.stride(1)


def _launch(programs: int) -> dict[str, int]:
    block, warps = next((block, warps) for most, block, warps in PROGRAMS_POSITIONS_WARPS if programs <= most)
    return {"BLOCK": block, "EARLY": warps > 1, "num_warps": warps}


def _check(*rows: Tensor) -> None:
    assert all(x.stride(2) == 1 and x.stride(1) == x.size(2) for x in rows), "heads lie side by side"


def _sizes(keys: Tensor, values: Tensor) -> dict[str, int]:
    """Of the heads, and padded to powers of two."""
    m, v = keys.size(3), values.size(3)
    assert keys.stride(3) == values.stride(3) == 1
    padded = (power_of_two(size, least=16) for size in (m, v))
    return {"D": m, "V": v, **dict(zip(("DP", "VP"), padded, strict=True))}
