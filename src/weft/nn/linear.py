"""nn.Linear that is quick for a few rows too, as in writing one sentence token by token on a GPU."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from weft.nn.kernels import HAS_TRITON
from weft.nn.native import decode as native

FEW: Final = 2
"""Rows up to which reading the weights is all there is to do."""

MOST: Final = 8192
"""Outputs beyond which torch's product keeps the whole device busy too."""


class Linear(nn.Linear):
    """x (…, inputs) -> (…, outputs)."""

    def forward(self, x: Tensor) -> Tensor:
        if not _idle():
            return super().forward(x)
        if native.multiplies(x, self):
            return native.multiply(x, self)
        if x.is_cuda and self._is_small(x):
            return multiply_few(x, self.weight, self.bias)
        return super().forward(x)

    def relu(self, x: Tensor) -> Tensor:
        """max(0, forward(x))."""
        if _idle() and native.multiplies(x, self):
            return native.multiply(x, self, relu=True)
        return relu(self(x))

    def _is_small(self, x: Tensor) -> bool:
        few = 0 < x.numel() <= FEW * self.in_features and self.out_features <= MOST
        plain = x.dtype == self.weight.dtype != torch.float64 and not torch.is_autocast_enabled("cuda")
        return HAS_TRITON and few and plain


def _idle() -> bool:
    """Whether nothing is learned here, and nothing compiled: a compiler should see one product and no questions."""
    return not torch.is_grad_enabled() and not torch.compiler.is_compiling()


def multiply_few(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x (…, K), weight (M, K), bias (M,) -> (…, M), in one kernel."""
    from weft.nn.linear_kernel import multiply

    rows = x.reshape(-1, x.size(-1))
    outputs, inputs = weight.shape
    y = x.new_empty(rows.size(0), outputs)
    # A program reads a whole row of weights at once, if it can.
    part, warps, wide = (8, 4, 512) if inputs <= 512 else (2, 8, 2048)
    multiply[(-(-outputs // part),)](
        rows, weight, bias, y, inputs, outputs, rows.stride(0), weight.stride(0),
        ROWS=rows.size(0), BIASED=bias is not None, M=part, K=wide, num_warps=warps,
    )  # fmt: skip
    return y.view(*x.shape[:-1], outputs)
