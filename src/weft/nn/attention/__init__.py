"""Attention: scores, masks and `attend`, the one door to it."""

from weft.nn.attention.attend import attend
from weft.nn.attention.masks import causal_mask, length_mask
from weft.nn.attention.multihead import KeysValues, MultiHeadAttention
from weft.nn.attention.packed import attend_packed
from weft.nn.attention.recording import AttentionCall, record_attention
from weft.nn.attention.rotary import Rotary
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
    "AttentionCall",
    "Bilinear",
    "Concat",
    "Dot",
    "KeysValues",
    "LowRank",
    "MultiHeadAttention",
    "Rotary",
    "ScaledDot",
    "Score",
    "ScoreFunction",
    "attend",
    "attend_packed",
    "causal_mask",
    "dot",
    "length_mask",
    "record_attention",
    "scaled_dot",
]
