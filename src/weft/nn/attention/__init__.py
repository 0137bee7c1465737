"""Attention: scores, masks and `attend`, the one door to it."""

from weft.nn.attention.attend import attend
from weft.nn.attention.masks import causal_mask, length_mask
from weft.nn.attention.scores import (
    SCORES,
    Additive,
    Bilinear,
    Concat,
    Dot,
    LowRank,
    ScaledDot,
    Score,
    ScoreFunction,
    dot,
    scaled_dot,
)

__all__ = [
    "SCORES",
    "Additive",
    "Bilinear",
    "Concat",
    "Dot",
    "LowRank",
    "ScaledDot",
    "Score",
    "ScoreFunction",
    "attend",
    "causal_mask",
    "dot",
    "length_mask",
    "scaled_dot",
]
