"""Masks, written out."""

from __future__ import annotations

import torch

from weft.nn import causal_mask, length_mask


def test_length_mask() -> None:
    assert length_mask(torch.tensor([2, 0, 3]), 3).tolist() == [[True, True, False], [False] * 3, [True] * 3]


def test_causal_mask_is_aligned_at_the_end() -> None:
    assert causal_mask(2, 3).tolist() == [[True, True, False], [True, True, True]]
    assert causal_mask(3, 2).tolist() == [[False, False], [True, False], [True, True]]
