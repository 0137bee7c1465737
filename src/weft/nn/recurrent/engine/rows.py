"""The rows of a batch as one list of time steps, for products over all of them at once."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor

from weft.nn.attention.masks import length_mask
from weft.nn.recurrent.lengths import zero_past_end

MIN_PADDING_SHARE: Final = 0.05
"""Share of padding above which leaving it out is worth the two copies that it takes."""


class BatchRows:
    """x (B, T, I) -> `taken` (N, I): all B * T steps, or the real ones alone."""

    def __init__(self, x: Tensor, lengths: Tensor | None, *, leave_out: bool) -> None:
        self.batch, self.time = x.size(0), x.size(1)
        self.lengths, self.index = lengths, None
        if leave_out and lengths is not None:
            real = length_mask(lengths, self.time).flatten().nonzero().squeeze(1)
            if real.numel() < (1 - MIN_PADDING_SHARE) * self.batch * self.time:
                self.index = real
        if self.index is None:
            self.taken = zero_past_end(x, lengths).reshape(self.batch * self.time, x.size(2))
        else:
            self.taken = self.take(x.reshape(self.batch * self.time, x.size(2)))

    def take(self, values: Tensor) -> Tensor:
        """values (B * T, O) -> (N, O)."""
        return values if self.index is None else _take(values, self.index)

    def put_back(self, values: Tensor) -> Tensor:
        """values (N, O) -> (B, T, O) with zeros past each row's end."""
        if self.index is None:
            return zero_past_end(values.view(self.batch, self.time, values.size(1)), self.lengths)
        return _put(values, self.index, self.batch * self.time).view(self.batch, self.time, values.size(1))


class _Take(torch.autograd.Function):
    """Some rows of a matrix, each once: the gradient is a copy, where that of index_select is a sum."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        ctx.rows = values.size(0)
        return values.index_select(0, index)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _put(gradient, ctx.saved_tensors[0], ctx.rows), None


class _Put(torch.autograd.Function):
    """Rows put back where they were taken, among zeros."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, index: Tensor, rows: int) -> Tensor:
        ctx.save_for_backward(index)
        return values.new_zeros(rows, values.size(1)).index_copy_(0, index, values)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return _take(gradient, ctx.saved_tensors[0]), None, None


def _take(values: Tensor, index: Tensor) -> Tensor:
    taken: Tensor = _Take.apply(values, index)  # type: ignore[no-untyped-call]
    return taken


def _put(values: Tensor, index: Tensor, rows: int) -> Tensor:
    put: Tensor = _Put.apply(values, index, rows)  # type: ignore[no-untyped-call]
    return put
