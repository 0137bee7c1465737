"""Attention: each query takes a weighted mean of the values, weighted by how well their keys fit.

    context = softmax(score(q, k)) v

The leading dimensions (batch, heads, …) broadcast; Tq queries, Tk keys and values.
"""

from __future__ import annotations

import math
from typing import Literal, overload

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout as drop
from torch.nn.functional import scaled_dot_product_attention

from weft.errors import ConfigError, did_you_mean
from weft.nn.attention.recording import AttentionCall, announce, recording
from weft.nn.attention.scores import FUNCTIONS, Scale, Score, ScoreFunction, dot, scale_of, scaled_dot
from weft.nn.attention.weights import may_attend, weigh


@overload
def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    score: str | ScoreFunction = ...,
    mask: Tensor | None = ...,
    causal: bool = ...,
    scale: Scale | None = ...,
    dropout: float = ...,
    hard: bool = ...,
    weights: Literal[False] = ...,
    module: nn.Module | None = ...,
) -> Tensor: ...


@overload
def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    score: str | ScoreFunction = ...,
    mask: Tensor | None = ...,
    causal: bool = ...,
    scale: Scale | None = ...,
    dropout: float = ...,
    hard: bool = ...,
    weights: Literal[True],
    module: nn.Module | None = ...,
) -> tuple[Tensor, Tensor]: ...


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    score: str | ScoreFunction = "scaled_dot",
    mask: Tensor | None = None,
    causal: bool = False,
    scale: Scale | None = None,
    dropout: float = 0.0,
    hard: bool = False,
    weights: bool = False,
    module: nn.Module | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """query (…, Tq, Q), key (…, Tk, K), value (…, Tk, V) -> context (…, Tq, V), with weights=True also (…, Tq, Tk).

    score: "dot", "scaled_dot", or a Score module or function of (query, key). mask: broadcastable to (…, Tq, Tk), True
    where a query may look; causal: each query sees the keys up to its own place, the last query all of them. scale, a
    number or a name of `scale_of`, takes the place of 1/√D in scaled_dot and multiplies the other scores. dropout acts
    whenever it is not zero: pass zero outside training. hard: the best key alone; backward, the weights have the
    gradient of the softmax (straight-through). The weights returned are those used, so context = weights @ value. A
    query that may look nowhere gets zeros. `module` is the one that attends, for those who record calls (recording.py).
    """
    scale = None if scale is None else scale_of(scale, query.size(-1), key.size(-1))
    if isinstance(score, Score):
        key, score = score.keys(key), score.compare
    function = _named(score) if isinstance(score, str) else score
    if function is scaled_dot:
        function, scale = dot, 1 / math.sqrt(query.size(-1)) if scale is None else scale
    used: Tensor | None = None
    if function is dot and not hard and not weights:
        context = _fast(query, key, value, mask, causal, 1.0 if scale is None else scale, dropout)
    else:
        scores = function(query, key) if scale is None else function(query, key) * scale
        used = weigh(scores, may_attend(scores.shape, mask, causal, scores.device), hard=hard)
        used = drop(used, dropout) if dropout else used
        context = used @ value
    if recording():
        announce(AttentionCall(module, query, key, value, context, mask, function, scale, causal, hard))
    return context if used is None or not weights else (context, used)


def _fast(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool, scale: float, dropout: float
) -> Tensor:
    """torch's fused attention, with the numbers of the plain path."""
    queries, keys = query.size(-2), key.size(-2)
    # torch aligns a causal mask at the start, so it only means the same for as many queries as keys.
    if mask is None and (not causal or queries == keys):
        return scaled_dot_product_attention(query, key, value, dropout_p=dropout, is_causal=causal, scale=scale)
    may = may_attend(torch.Size((queries, keys)), mask, causal, query.device)
    assert may is not None
    # Kernels differ on rows without any key; such a row attends to all keys and its result is set to zero.
    nowhere = ~may.any(-1, keepdim=True)
    if query.device.type == "cpu" and not torch.compiler.is_compiling() and not bool(nowhere.any()):
        return scaled_dot_product_attention(query, key, value, attn_mask=may, dropout_p=dropout, scale=scale)
    context = scaled_dot_product_attention(query, key, value, attn_mask=may | nowhere, dropout_p=dropout, scale=scale)
    return context.masked_fill(nowhere, 0)


def _named(score: str) -> ScoreFunction:
    if score not in FUNCTIONS:
        cure = did_you_mean(score, FUNCTIONS) + "; scores with weights are passed as modules, built by SCORES"
        raise ConfigError(f'"{score}" is not a score without weights', where="score", cure=cure)
    return FUNCTIONS[score]
