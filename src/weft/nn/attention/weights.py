"""Attention weights in plain torch: the softmax of scores, with masks, or the best key alone."""

from __future__ import annotations

import torch
from torch import Tensor

from weft.nn.attention.masks import causal_mask


def weigh(scores: Tensor, may: Tensor | None, *, hard: bool) -> Tensor:
    """scores and mask (…, Tq, Tk) -> weights that sum to one, or to zero where the mask hides every key."""
    if may is not None:
        # A finite floor: with -inf a row without any key would be NaN, and so would its gradient.
        scores = scores.masked_fill(~may, torch.finfo(scores.dtype).min)
    weights = _hard(scores) if hard else scores.softmax(-1)
    return weights if may is None else weights.masked_fill(~may, 0)


def _hard(scores: Tensor) -> Tensor:
    """scores (…, Tq, Tk) -> 1 at the best key, 0 elsewhere; with the gradient of the softmax (Bengio et al., 2013),
    since their own is zero."""
    best = torch.zeros_like(scores).scatter(-1, scores.argmax(-1, keepdim=True), 1.0)
    if not (torch.is_grad_enabled() and scores.requires_grad):
        return best
    soft = scores.softmax(-1)
    return best + (soft - soft.detach())


def may_attend(shape: torch.Size, mask: Tensor | None, causal: bool, device: torch.device) -> Tensor | None:
    """Where a query may look, for scores of this shape (…, Tq, Tk); None where it may look everywhere."""
    if not causal:
        return mask
    past = causal_mask(shape[-2], shape[-1], device=device)
    return past if mask is None else mask & past
