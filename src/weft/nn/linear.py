"""nn.Linear that is fast for a few rows too, as in decoding one sentence on a GPU, and on processors on which torch's
products are slow."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn import functional as F

from weft.nn.kernels import HAS_TRITON
from weft.nn.native import packed_linear, product

MAX_FEW_ROWS: Final = 2
"""Rows up to which the time of a product is that of reading the weights."""

MAX_OUTPUTS: Final = 8192
"""Outputs beyond which torch's product keeps the whole device busy too."""


class Linear(nn.Linear):
    """x (…, inputs) -> (…, outputs)."""

    def forward(self, x: Tensor) -> Tensor:
        found = self._in_one(x, relu=False) if _idle() else None
        return linear(x, self.weight, self.bias) if found is None else found

    def relu(self, x: Tensor) -> Tensor:
        """max(0, forward(x))."""
        found = self._in_one(x, relu=True) if _idle() else None
        return F.relu(linear(x, self.weight, self.bias)) if found is None else found

    def _in_one(self, x: Tensor, *, relu: bool) -> Tensor | None:
        """The product in one kernel, or None where torch's own is as fast."""
        if packed_linear.multiplies(x, self):
            return packed_linear.multiply(x, self, relu=relu)
        plain = x.dtype == self.weight.dtype and not torch.is_autocast_enabled("cuda")
        if not x.is_cuda or not plain:
            return None
        if HAS_TRITON and self._is_small(x):
            return multiply_few(x, self.weight, self.bias, relu=relu)
        if not relu or self.bias is None:
            return None
        rows = torch._addmm_activation(self.bias, x.reshape(-1, x.size(-1)), self.weight.t())
        return rows.view(*x.shape[:-1], self.out_features)

    def _is_small(self, x: Tensor) -> bool:
        few = 0 < x.numel() <= MAX_FEW_ROWS * self.in_features and self.out_features <= MAX_OUTPUTS
        return few and x.dtype != torch.float64


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x (…, K), weight (M, K), bias (M,) -> (…, M)."""
    given = (x, weight) if bias is None else (x, weight, bias)
    if not product.serves(*given, terms=x.numel() * weight.size(0)) or not _is_plain(given):
        return F.linear(x, weight, bias)
    rows: Tensor = _LinearProduct.apply(x.reshape(-1, x.size(-1)), weight, bias)  # type: ignore[no-untyped-call]
    return rows.view(*x.shape[:-1], weight.size(0))


def _is_plain(tensors: tuple[Tensor, ...]) -> bool:
    """Whether nothing else is done with a product than to compute it: no casting or transforming."""
    if torch.is_autocast_enabled("cpu") or torch._C._are_functorch_transforms_active():
        return False
    if forward_ad._current_level >= 0:
        return False
    return all(type(tensor) in (Tensor, nn.Parameter) for tensor in tensors)


class _LinearProduct(torch.autograd.Function):
    """x (N, K), weight (M, K), bias (M,) -> (N, M) by products of weft."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return product.multiply(x, weight.t(), bias=bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        if torch.is_grad_enabled():  # a second derivative is possible only through torch's own operations
            return gradient @ weight, gradient.t() @ x, gradient.sum(0)
        wanted = ctx.needs_input_grad
        return (
            product.multiply(gradient, weight) if wanted[0] else None,
            product.multiply_transposed(gradient, x) if wanted[1] else None,
            gradient.sum(0) if wanted[2] else None,
        )


def _idle() -> bool:
    """Whether there are no gradients and no torch.compile, which should see one plain product."""
    return not torch.is_grad_enabled() and not torch.compiler.is_compiling()


def multiply_few(x: Tensor, weight: Tensor, bias: Tensor | None, *, relu: bool = False) -> Tensor:
    """x (…, K), weight (M, K), bias (M,) -> (…, M), or max(0, that), in one kernel."""
    from weft.nn.linear_kernel import multiply

    rows = x.reshape(-1, x.size(-1))
    outputs, inputs = weight.shape
    y = x.new_empty(rows.size(0), outputs)
    # A program reads a whole row of weights at once, if it can.
    part, warps, wide = (8, 4, 512) if inputs <= 512 else (2, 8, 2048)
    multiply[(-(-outputs // part),)](
        rows, weight, bias, y, inputs, outputs, rows.stride(0), weight.stride(0),
        ROWS=rows.size(0), BIASED=bias is not None, RELU=relu, M=part, K=wide, num_warps=warps,
    )  # fmt: skip
    return y.view(*x.shape[:-1], outputs)
