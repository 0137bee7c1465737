"""The product before the loop: torch's; on a CPU with its result in pooled memory (weft.nn.native.pages), in float32 on
a GPU with the precision of the loop's products. Under torch.compile it is an ordinary product."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from weft.nn.native import pages
from weft.nn.recurrent.engine.precision import product_precision, products_in


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
        with products_in(product_precision(), x.device):
            return _multiply(x, weight)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        for_x = for_weight = None
        with products_in(product_precision(), x.device):
            if ctx.needs_input_grad[0]:
                # A second derivative is possible only through torch's own operations.
                for_x = gradient @ weight.t() if torch.is_grad_enabled() else _multiply(gradient, weight.t())
            if ctx.needs_input_grad[1]:
                for_weight = x.t() @ gradient if weight.stride(1) == 1 else (gradient.t() @ x).t()
        return for_x, for_weight


def _multiply(x: Tensor, weight: Tensor) -> Tensor:
    return torch.mm(x, weight, out=pages.empty(x.size(0), weight.size(1), x))
