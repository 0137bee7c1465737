"""LN(x + dropout(f)) and LN(x) in one kernel each way on a GPU in half precision (see norm_kernel.py).

x and f are (…, D); what is kept for the backward pass is the sum, in the type of x, and two numbers a row.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor

from weft.nn.kernels import HAS_TRITON, in_half_on_gpu, power_of_two

WIDEST: Final = 4096
"""Features of a position that a program can hold."""

LEVELS: Final = 1 << 24
"""Dropout rates that can be distinguished."""

PROGRAMS: Final = 1024
"""About as many as a large GPU runs at once, in the backward pass; each leaves a row of sums to add up."""


def serves(x: Tensor) -> bool:
    """Whether the kernels are made for it: on CUDA, in half precision, not too wide, and Triton there."""
    return HAS_TRITON and in_half_on_gpu(x) and x.size(-1) <= WIDEST


def add_norm(x: Tensor, f: Tensor, weight: Tensor, bias: Tensor, *, dropout: float, epsilon: float) -> Tensor:
    """LN(x + dropout(f))."""
    # Drawn on the device, so that a captured graph draws anew at each replay.
    seed = torch.randint(0, 2**31 - 1, (1,), device=x.device) if dropout else None
    found: Tensor = _norm(x.contiguous(), f.contiguous(), weight, bias, seed, dropout, epsilon)[0]
    return found


def norm(x: Tensor, weight: Tensor, bias: Tensor, *, epsilon: float) -> Tensor:
    """LN(x)."""
    found: Tensor = _norm(x.contiguous(), None, weight, bias, None, 0.0, epsilon)[0]
    return found


@torch.library.custom_op("weft::add_norm", mutates_args=())
def _norm(
    x: Tensor, f: Tensor | None, weight: Tensor, bias: Tensor, seed: Tensor | None, dropout: float, epsilon: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """-> LN of the sum, the sum (empty without f), and the mean and the scale of each row."""
    from weft.nn.transformer import norm_kernel

    y, sums, means, scales = _outputs(x, f)
    width, count = x.size(-1), means.numel()
    block, rows = _tile(width)
    if count:
        norm_kernel.forward[(-(-count // rows),)](
            x, f, weight, bias, y, sums, means, scales, seed, count, round(dropout * LEVELS), 1 / (1 - dropout),
            epsilon,
            WIDTH=width, R=rows, D=block, ADD=f is not None, DROP=seed is not None, num_warps=4,
        )  # fmt: skip
    return y, sums, means, scales


@_norm.register_fake
def _(
    x: Tensor, f: Tensor | None, weight: Tensor, bias: Tensor, seed: Tensor | None, dropout: float, epsilon: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return _outputs(x, f)


@torch.library.custom_op("weft::add_norm_backward", mutates_args=())
def _norm_backward(
    grad: Tensor, sums: Tensor, weight: Tensor, means: Tensor, scales: Tensor, seed: Tensor | None, dropout: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """-> the gradients of x, of f (empty where it is that of x), of weight and of bias."""
    from weft.nn.transformer import norm_kernel

    width, count = sums.size(-1), means.numel()
    block, rows = _tile(width)
    tiles = max(1, -(-count // (rows * PROGRAMS)))
    programs = -(-count // (rows * tiles))
    dx, df = torch.empty_like(sums), torch.empty_like(sums) if seed is not None else sums.new_empty(0)
    shares = torch.empty(2, programs, width, dtype=torch.float32, device=sums.device)
    if count:
        norm_kernel.backward[(programs,)](
            grad.contiguous(), sums, weight, means, scales, dx, df, shares[0], shares[1], seed, count,
            round(dropout * LEVELS), 1 / (1 - dropout),
            WIDTH=width, R=rows, D=block, DROP=seed is not None, TILES=tiles, num_warps=4,
        )  # fmt: skip
    dweight, dbias = shares.sum(1).to(weight.dtype).unbind(0)
    return dx, df, dweight.clone(), dbias.clone()


@_norm_backward.register_fake
def _(
    grad: Tensor, sums: Tensor, weight: Tensor, means: Tensor, scales: Tensor, seed: Tensor | None, dropout: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    df = torch.empty_like(sums) if seed is not None else sums.new_empty(0)
    return torch.empty_like(sums), df, torch.empty_like(weight), torch.empty_like(weight)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    x, f, weight, _, seed, dropout, _ = inputs
    _, sums, means, scales = output
    ctx.save_for_backward(x if f is None else sums, weight, means, scales, seed)
    ctx.dropout, ctx.adds = dropout, f is not None


def _gradient(ctx: Any, grad: Tensor, *_: Any) -> tuple[Any, ...]:
    dx, df, dweight, dbias = _norm_backward(grad, *ctx.saved_tensors, ctx.dropout)
    added = None if not ctx.adds else df if df.numel() else dx
    return dx, added, dweight, dbias, None, None, None


_norm.register_autograd(_gradient, setup_context=_remember)


def _outputs(x: Tensor, f: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    rows = x.numel() // max(1, x.size(-1))
    numbers = [torch.empty(rows, dtype=torch.float32, device=x.device) for _ in range(2)]
    return torch.empty_like(x), torch.empty_like(x) if f is not None else x.new_empty(0), numbers[0], numbers[1]


def _tile(width: int) -> tuple[int, int]:
    """Columns, a power of two, and rows of a tile of about 2,048 numbers."""
    block = power_of_two(width, least=16)
    return block, max(1, 2048 // block)
