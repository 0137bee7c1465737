"""The product before the loop: torch's, with its result in pooled memory (weft.nn.native.pages)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from weft.nn.native import pages


def row_product(x: Tensor, weight: Tensor) -> Tensor:
    """x (N, n) @ weight (n, m) -> (N, m)."""
    if torch.compiler.is_compiling() or x.device.type != "cpu" or not x.dtype == weight.dtype == torch.float32:
        return x @ weight
    product: Tensor = _RowProduct.apply(x, weight)  # type: ignore[no-untyped-call]
    return product


class _RowProduct(torch.autograd.Function):
    """x @ weight with its result and the gradient of x in pooled memory."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _multiply(x, weight)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        for_x = for_weight = None
        if ctx.needs_input_grad[0]:
            # A second derivative is possible only through torch's own operations.
            for_x = gradient @ weight.t() if torch.is_grad_enabled() else _multiply(gradient, weight.t())
        if ctx.needs_input_grad[1]:
            for_weight = x.t() @ gradient if weight.stride(1) == 1 else (gradient.t() @ x).t()
        return for_x, for_weight


def _multiply(x: Tensor, weight: Tensor) -> Tensor:
    return torch.mm(x, weight, out=pages.empty(x.size(0), weight.size(1), x))
