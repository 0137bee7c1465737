"""The product before the loop: on a CPU torch's or ours, whichever is faster there (weft.nn.native.product); in float32
on a GPU torch's with the precision of the loop's products. Under torch.compile it is an ordinary product."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from weft.nn.native.product import multiply, multiply_transposed
from weft.nn.recurrent.engine.precision import products_as_of_lstm


def row_product(x: Tensor, weight: Tensor) -> Tensor:
    """x (N, n) @ weight (n, m) -> (N, m)."""
    device = x.device.type
    if (
        torch.compiler.is_compiling()
        or device not in ("cpu", "cuda")
        or not x.dtype == weight.dtype == torch.float32
        or (device == "cuda" and torch.is_autocast_enabled(device))
    ):
        return x @ weight
    product: Tensor = _RowProduct.apply(x, weight)  # type: ignore[no-untyped-call]
    return product


class _RowProduct(torch.autograd.Function):
    """x @ weight with its result and the gradient of x in pooled memory, all in one precision."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        with products_as_of_lstm(x):
            return multiply(x, weight)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        for_x = for_weight = None
        with products_as_of_lstm(x):
            if torch.is_grad_enabled():  # a second derivative is possible only through torch's own operations
                return gradient @ weight.t(), x.t() @ gradient
            if ctx.needs_input_grad[0]:
                for_x = multiply(gradient, weight.t())
            if ctx.needs_input_grad[1]:
                by_rows = weight.stride(1) == 1
                for_weight = multiply_transposed(x, gradient) if by_rows else multiply_transposed(gradient, x).t()
        return for_x, for_weight
