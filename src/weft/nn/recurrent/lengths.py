"""Rows of different lengths in one batch: what every way of running a cell does before and after."""

from __future__ import annotations

import torch
from torch import Tensor

from weft.errors import DataError
from weft.nn.attention.masks import length_mask


def check_input(x: Tensor, width: int, dimensions: str) -> None:
    """An input must be a tensor of these dimensions, (B, T, I) or (B, I), and `width` features."""
    if not isinstance(x, Tensor) or x.dim() != dimensions.count(",") + 1 or x.size(-1) != width:
        found = f"of the shape {tuple(x.shape)}" if isinstance(x, Tensor) else f"a {type(x).__name__}"
        raise DataError(f"the input is {found}", where="x", cure=f"{dimensions} with I = {width}")


def check_lengths(x: Tensor, lengths: Tensor | None) -> Tensor | None:
    """x (B, T, I), lengths (B,) -> the lengths beside x, or None where no row needs them.

    Lengths that stand on the CPU are checked; on another device a look at them would stall it.
    """
    if lengths is None:
        return None
    if not isinstance(lengths, Tensor):
        cure = "a tensor of whole numbers, torch.tensor(lengths)"
        raise DataError(f"lengths are a {type(lengths).__name__}", where="lengths", cure=cure)
    batch, time = x.shape[:2]
    if lengths.dtype == torch.bool or lengths.is_floating_point():
        raise DataError(f"lengths are {str(lengths.dtype).removeprefix('torch.')}, not whole numbers", where="lengths")
    if lengths.shape != (batch,):
        raise DataError(f"lengths have the shape {tuple(lengths.shape)}, the batch has {batch} rows", where="lengths")
    if lengths.device.type == "cpu" and not torch.compiler.is_compiling():
        if bool(((lengths < 0) | (lengths > time)).any()):
            raise DataError(f"lengths {lengths.tolist()} do not fit a batch of {time} steps", where="lengths")
        if bool((lengths == time).all()):
            return None
    if x.is_cuda and not lengths.is_cuda and not torch.compiler.is_compiling():
        # Pinned, or the copy would wait for everything that is queued.
        return lengths.to(torch.int64).pin_memory().to(x.device, non_blocking=True)
    return lengths.to(x.device, torch.int64)


def zero_past_end(x: Tensor, lengths: Tensor | None) -> Tensor:
    """x (B, T, D) with zeros past each row's end."""
    return x if lengths is None else x.masked_fill(~length_mask(lengths, x.size(1))[..., None], 0)


def reverse_rows(x: Tensor, lengths: Tensor | None) -> Tensor:
    """x (B, T, …) with each row's real steps in reverse order and its padding where it was; its own inverse."""
    if lengths is None:
        return x.flip(1)
    steps = torch.arange(x.size(1), device=x.device)
    ends = lengths[:, None]
    source = torch.where(steps < ends, ends - 1 - steps, steps)
    return x.gather(1, source.view(*source.shape, *[1] * (x.dim() - 2)).expand_as(x))


def last_steps(x: Tensor, lengths: Tensor | None, *, empty: Tensor) -> Tensor:
    """x (B, T, D) -> (B, D), the last real step of each row; rows without one take theirs from `empty`."""
    if lengths is None:
        return x[:, -1]
    picked = x[torch.arange(x.size(0), device=x.device), (lengths - 1).clamp(min=0)]
    return torch.where(lengths[:, None] > 0, picked, empty)


def last_of(x: Tensor, lengths: Tensor | None) -> Tensor:
    """x (B, T, D) -> (B, D), the last real step of each row; zeros for a row without steps."""
    if x.size(1) == 0:
        return x.sum(1)
    if lengths is None:
        return x[:, -1]
    at = (lengths - 1).clamp(min=0)[:, None, None].expand(-1, 1, x.size(2))
    return x.gather(1, at).squeeze(1).masked_fill(lengths[:, None] == 0, 0)
