"""nn.Linear that is quick for a few rows too, as in writing one sentence token by token on a GPU."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from weft.nn.kernels import HAS_TRITON
from weft.nn.native import packed_linear

FEW: Final = 2
"""Rows up to which reading the weights is all there is to do."""

MOST: Final = 8192
"""Outputs beyond which torch's product keeps the whole device busy too."""


class Linear(nn.Linear):
    """x (…, inputs) -> (…, outputs)."""

    def forward(self, x: Tensor) -> Tensor:
        found = self._in_one(x, relu=False) if _idle() else None
        return super().forward(x) if found is None else found

    def relu(self, x: Tensor) -> Tensor:
        """max(0, forward(x))."""
        found = self._in_one(x, relu=True) if _idle() else None
        return relu(super().forward(x)) if found is None else found

    def _in_one(self, x: Tensor, *, relu: bool) -> Tensor | None:
        """The result of one fused kernel, or None where torch is as fast."""
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
        few = 0 < x.numel() <= FEW * self.in_features and self.out_features <= MOST
        return few and x.dtype != torch.float64


def _idle() -> bool:
    """Whether neither autograd nor torch.compile is active; a compiler should trace one product without branches."""
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
