"""Cross-entropy of a linear map to many classes, without ever holding the scores of all rows.

    z = W h + b      q = (1 - ε) onehot(target) + ε / V
    loss = Σ_n logsumexp(z_n) - q_n · z_n        ∂loss/∂z = softmax(z) - q

The loss is a sum, so the gradient of a block of rows is known as soon as its scores are: it takes their place in the
one buffer there is, gives its share of the gradients of h, W and b, and the next block overwrites it. The backward
pass only scales them.                                                     N rows, D features, V classes, n rows at once
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from weft.nn.kernels import HALF
from weft.nn.native.product import multiply, multiply_transposed

MAX_CUDA_BYTES = 512 << 20
"""Scores held at once on a GPU: so many that products run at full speed, few beside the activations of a model."""

MAX_CPU_BYTES = 32 << 20
"""Elsewhere: what a large cache holds."""

MIN_CPU_ROWS = 512
"""With fewer rows at once a processor spends its time on rearranging W for the product."""

Losses = Callable[..., Tensor]
"""(z (n, V), targets (n,), label_smoothing=, differentiate=) -> losses (n,); z becomes their gradient."""


def linear_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    *,
    label_smoothing: float = 0.0,
    chunk: int | None = None,
) -> Tensor:
    """hidden (N, D), weight (V, D), bias (V) or None, targets (N,) of 0 … V-1 -> the sum of the N losses.

    A target of -1 leaves its row out: there is no loss, and no gradient.

    The products run in the type that autocast asks for, softmax and sums in float32 (float64 for such inputs). `chunk`
    is the number of rows at once; by default it suits the device.
    """
    kind = hidden.device.type
    casts = torch.is_autocast_enabled(kind) and hidden.dtype != torch.float64
    dtype = torch.get_autocast_dtype(kind) if casts else hidden.dtype
    plan = _Plan(dtype, chunk or rows_at_once(hidden.device, len(weight), dtype), label_smoothing)
    differentiate = torch.is_grad_enabled() and any(
        tensor is not None and tensor.requires_grad for tensor in (hidden, weight, bias)
    )
    plain: AbstractContextManager[object] = torch.autocast(kind, enabled=False) if casts else nullcontext()
    with plain:
        if differentiate:
            total: Tensor = _LinearCrossEntropy.apply(hidden, weight, bias, targets, plan)  # type: ignore[no-untyped-call]
            return total
        return _compute(hidden, weight, bias, targets, plan, (False, False, False))[0]


def rows_at_once(device: torch.device, classes: int, dtype: torch.dtype) -> int:
    """How many rows of scores to hold at a time."""
    row = max(1, classes * dtype.itemsize)
    return max(1, MAX_CUDA_BYTES // row) if device.type == "cuda" else max(MIN_CPU_ROWS, MAX_CPU_BYTES // row)


class _Plan(NamedTuple):
    dtype: torch.dtype
    rows: int
    label_smoothing: float


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, plan: _Plan) -> Tensor:
        total, *gradients = _compute(hidden, weight, bias, targets, plan, ctx.needs_input_grad[:3])
        ctx.save_for_backward(*gradients)
        return total

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "linear_cross_entropy cannot be differentiated twice (create_graph = True); "
                "use F.cross_entropy(F.linear(hidden, weight, bias), targets) there"
            )
        scaled = [None if gradient is None else gradient * upstream for gradient in ctx.saved_tensors]
        return (*scaled, None, None)


def _compute(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, plan: _Plan, needs: tuple[bool, bool, bool]
) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]:
    """The loss and the gradients of those of hidden, weight and bias that need one, each in the type of its tensor."""
    h, w, b = (None if tensor is None else tensor.detach().to(plan.dtype) for tensor in (hidden, weight, bias))
    assert h is not None
    assert w is not None
    precise = torch.float32 if plan.dtype in HALF else plan.dtype
    losses = h.new_empty(len(h), dtype=precise)
    for_hidden = torch.empty_like(h) if needs[0] else None
    for_weight = for_bias = None
    rows = _even(len(h), plan.rows)
    scores = _buffer(min(rows, len(h)), len(w), h)
    softmax_losses = _losses_of(scores)
    for start in range(0, len(h), rows):
        part = slice(start, start + rows)
        x = h[part]
        z = scores[: len(x)]
        multiply(x, w.t(), bias=b, out=z)
        losses[part] = softmax_losses(z, targets[part], label_smoothing=plan.label_smoothing, differentiate=any(needs))
        if for_hidden is not None:
            multiply(z, w, out=for_hidden[part])
        if needs[1]:
            for_weight = _add_product(for_weight, z, x)
        if needs[2]:
            summed = z.sum(0, dtype=precise)
            for_bias = summed if for_bias is None else for_bias.add_(summed)
    gradients = (for_hidden, for_weight, for_bias)
    return (losses.sum(), *map(_like, gradients, (hidden, weight, bias), needs))  # type: ignore[return-value]


def _like(gradient: Tensor | None, tensor: Tensor | None, needed: bool) -> Tensor | None:
    if not needed or tensor is None:
        return None
    return torch.zeros_like(tensor) if gradient is None else gradient.to(tensor.dtype)


def _even(count: int, limit: int) -> int:
    """Rows at once for `count` of them, at most `limit`, so that no small rest is left over."""
    parts = max(1, -(-count // limit))
    return max(1, -(-count // parts))


def _buffer(rows: int, classes: int, like: Tensor) -> Tensor:
    """(rows, classes); on a GPU each row begins at a multiple of eight numbers, which fast products need."""
    width = -(-classes // 8) * 8 if like.is_cuda else classes
    return like.new_empty(rows, width)[:, :classes]


def _add_product(total: Tensor | None, left: Tensor, right: Tensor) -> Tensor:
    """total + leftᵀ @ right in float32 or better, whatever the type of the two sides; `total` is overwritten."""
    if left.dtype not in HALF:
        return multiply_transposed(left, right, total=total)
    # Only CUDA gives the sums of a product of half precision as they are, before rounding.
    product: Tensor
    product = torch.mm(left.t(), right, out_dtype=torch.float32) if left.is_cuda else torch.mm(left.t(), right).float()
    return product if total is None else total.add_(product)


def softmax_losses(z: Tensor, targets: Tensor, *, label_smoothing: float, differentiate: bool) -> Tensor:
    """Losses (n,) of scores z (n, V), which are overwritten: by the gradient of the losses' sum if `differentiate`."""
    x = z.float() if z.dtype in HALF else z
    left_out = targets[:, None] < 0
    skips = z.is_cuda or bool(left_out.any())  # a GPU is not asked
    index = targets[:, None].clamp(min=0) if skips else targets[:, None]
    losses = x.gather(1, index) * (label_smoothing - 1)
    if label_smoothing:
        losses -= label_smoothing * x.mean(1, keepdim=True)
    top = x.amax(1, keepdim=True)
    total = x.sub_(top).exp_().sum(1, keepdim=True)
    losses += top + total.log()
    if differentiate:
        x.div_(total)
        if label_smoothing:
            x.sub_(label_smoothing / x.size(1))
        x.scatter_add_(1, index, x.new_full(index.shape, label_smoothing - 1))
        if skips:
            x.masked_fill_(left_out, 0)
        if x is not z:
            z.copy_(x)
    return (losses.masked_fill(left_out, 0) if skips else losses).squeeze(1)


def _losses_of(scores: Tensor) -> Losses:
    """Its own kernel on CUDA, where that can be had; several passes over the scores elsewhere."""
    kernel = _kernel(scores.device) if scores.is_cuda and scores.dtype != torch.float64 else None
    return kernel or softmax_losses


@cache
def _kernel(device: torch.device) -> Losses | None:
    """The Triton kernel, tried once, because what it needs may be missing only when it is built."""
    try:
        from weft.nn.cross_entropy_kernel import softmax_losses as kernel

        kernel(torch.zeros(1, 2, device=device), torch.zeros(1, dtype=torch.int64, device=device))
    except Exception as error:
        reason = str(error).strip().splitlines() or [type(error).__name__]
        warnings.warn(f"the loss runs without its Triton kernel, more slowly: {reason[0]}", stacklevel=2)
        return None
    return kernel
