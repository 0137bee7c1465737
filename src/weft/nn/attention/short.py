"""Attention over packed rows of at most 128 positions, in one kernel each way (see short_kernel.py).

Queries, keys and values are handed over as the products that made them, not as their parts: the matrix of a joint map
in self-attention; that of the query's map and that of the memory's in cross attention. N queries, M keys, H heads of D.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor

from weft.nn.kernels import HAS_TRITON, in_half_on_gpu, power_of_two
from weft.nn.packing import Packing

MAX_POSITIONS: Final = 128
"""Positions of a row that fit on the chip together with their keys and values."""

HEAD_SIZES: Final = (16, 32, 64, 128)
"""Features of a head that the kernels are made for."""


def is_short(x: Tensor, queries: Packing, keys: Packing, size: int) -> bool:
    """Whether the kernels serve these rows: on CUDA, in half precision, short enough, and Triton there."""
    short = max(queries.longest, keys.longest) <= MAX_POSITIONS and size in HEAD_SIZES
    return short and HAS_TRITON and in_half_on_gpu(x)


def attend_short(
    query: Tensor, memory: Tensor | None, queries: Packing, keys: Packing, *, heads: int, causal: bool, scale: float
) -> Tensor:
    """query (N, 3·H·D) with keys and values beside it, or (N, H·D) and memory (M, 2·H·D) -> (N, H·D)."""
    longest = (block(queries.longest), block(keys.longest))
    if memory is None:
        out: Tensor = _own(query, queries.offsets, *longest, heads, causal, scale)
    else:
        out = _other(query, memory, queries.offsets, keys.offsets, *longest, heads, causal, scale)
    return out


def block(longest: int) -> int:
    """The size of a tile that holds so many positions."""
    return power_of_two(longest, least=16)


@torch.library.custom_op("weft::attend_own_rows", mutates_args=())
def _own(joint: Tensor, offsets: Tensor, q_block: int, k_block: int, heads: int, causal: bool, scale: float) -> Tensor:
    width = joint.size(1) // 3
    out = joint.new_empty(joint.size(0), width)
    _launch(
        "forward",
        (joint, joint, out),
        (offsets, offsets),
        (0, width, 2 * width),
        heads,
        q_block,
        k_block,
        causal,
        scale,
    )
    return out


@_own.register_fake
def _(joint: Tensor, offsets: Tensor, q_block: int, k_block: int, heads: int, causal: bool, scale: float) -> Tensor:
    return joint.new_empty(joint.size(0), joint.size(1) // 3)


@torch.library.custom_op("weft::attend_own_rows_backward", mutates_args=())
def _own_backward(
    grad: Tensor, joint: Tensor, offsets: Tensor, q_block: int, k_block: int, heads: int, causal: bool, scale: float
) -> Tensor:
    width = joint.size(1) // 3
    result = torch.empty_like(joint)
    tensors = (joint, joint, grad.contiguous(), result, result)
    _launch("backward", tensors, (offsets, offsets), (0, width, 2 * width), heads, q_block, k_block, causal, scale)
    return result


@_own_backward.register_fake
def _(
    grad: Tensor, joint: Tensor, offsets: Tensor, q_block: int, k_block: int, heads: int, causal: bool, scale: float
) -> Tensor:
    return torch.empty_like(joint)


@torch.library.custom_op("weft::attend_other_rows", mutates_args=())
def _other(
    query: Tensor, memory: Tensor, q_offsets: Tensor, k_offsets: Tensor, q_block: int, k_block: int, heads: int,
    causal: bool, scale: float,
) -> Tensor:  # fmt: skip
    out, width = torch.empty_like(query), query.size(1)
    _launch(
        "forward", (query, memory, out), (q_offsets, k_offsets), (0, 0, width), heads, q_block, k_block, causal, scale
    )
    return out


@_other.register_fake
def _(
    query: Tensor, memory: Tensor, q_offsets: Tensor, k_offsets: Tensor, q_block: int, k_block: int, heads: int,
    causal: bool, scale: float,
) -> Tensor:  # fmt: skip
    return torch.empty_like(query)


@torch.library.custom_op("weft::attend_other_rows_backward", mutates_args=())
def _other_backward(
    grad: Tensor, query: Tensor, memory: Tensor, q_offsets: Tensor, k_offsets: Tensor, q_block: int, k_block: int,
    heads: int, causal: bool, scale: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    results = torch.empty_like(query), torch.empty_like(memory)
    tensors = (query, memory, grad.contiguous(), *results)
    width = query.size(1)
    _launch("backward", tensors, (q_offsets, k_offsets), (0, 0, width), heads, q_block, k_block, causal, scale)
    return results


@_other_backward.register_fake
def _(
    grad: Tensor, query: Tensor, memory: Tensor, q_offsets: Tensor, k_offsets: Tensor, q_block: int, k_block: int,
    heads: int, causal: bool, scale: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    return torch.empty_like(query), torch.empty_like(memory)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    tensors = [part for part in inputs if isinstance(part, Tensor)]
    ctx.save_for_backward(*tensors)
    ctx.settings = inputs[len(tensors) :]


def _own_gradient(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    return (_own_backward(grad, *ctx.saved_tensors, *ctx.settings), *[None] * 6)


def _other_gradient(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    return (*_other_backward(grad, *ctx.saved_tensors, *ctx.settings), *[None] * 7)


_own.register_autograd(_own_gradient, setup_context=_remember)
_other.register_autograd(_other_gradient, setup_context=_remember)


def _launch(
    name: str, tensors: tuple[Tensor, ...], offsets: tuple[Tensor, Tensor], at: tuple[int, int, int], heads: int,
    q_block: int, k_block: int, causal: bool, scale: float,
) -> None:  # fmt: skip
    """`at` are the first columns of queries, keys and values."""
    from weft.nn.attention import short_kernel

    query, memory = tensors[:2]
    rows, size = offsets[0].numel() - 1, (at[2] - at[1]) // heads
    if not rows:
        return
    getattr(short_kernel, name)[(heads, rows)](
        *tensors, *offsets, scale, query.size(1), memory.size(1), *at,
        H=heads, D=size, Q=q_block, K=k_block, CAUSAL=causal, num_warps=4 if max(q_block, k_block) <= 64 else 8,
    )  # fmt: skip
