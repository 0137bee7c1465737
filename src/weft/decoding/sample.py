"""Sampling: tokens drawn by their probability, which temperature, top-k and top-p reshape in this order.

Every text has its own row of uniform numbers, made from the seed, the sentence's key and the number of the draw, so
what is drawn for a sentence does not depend on the sentences beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from weft.decoding.config import DecodeConfig
from weft.decoding.follow import follow
from weft.decoding.request import Request
from weft.decoding.trail import End, Trail
from weft.models.stepper import Stepper


def search_sample(model: Stepper, memory: Any, request: Request, keys: Sequence[int]) -> tuple[Trail, list[End]]:
    """n_best texts for each sentence; keys tell the sentences apart."""
    config = request.config
    uniforms = _uniforms(request, keys)

    def choose(log_probabilities: Tensor, texts: Tensor, lengths: Tensor) -> Tensor:
        return draw(log_probabilities, uniforms[texts, (lengths - 1).clamp(min=0)], config)

    return follow(model, memory, request, choose=choose, copies=config.n_best)


def draw(log_probabilities: Tensor, uniforms: Tensor, config: DecodeConfig) -> Tensor:
    """log-probabilities (N, V), uniforms (N,) in [0, 1) -> tokens (N,): the first whose cumulative share passes."""
    shares, tokens = reshape(log_probabilities, config)
    cumulative = shares.cumsum(-1)
    target = uniforms[:, None] * cumulative[:, -1:]
    place = (cumulative <= target).sum(-1, keepdim=True)
    return tokens.gather(1, place).squeeze(1)


def reshape(log_probabilities: Tensor, config: DecodeConfig) -> tuple[Tensor, Tensor]:
    """log-probabilities (N, V) -> shares (N, M) to draw by, and the tokens (N, M) they belong to."""
    scaled = log_probabilities.double() / config.temperature
    if not config.top_k and config.top_p == 1.0:
        tokens = torch.arange(scaled.size(1), device=scaled.device).expand_as(scaled)
        return scaled.softmax(-1), tokens
    scaled, tokens = scaled.topk(min(config.top_k or scaled.size(1), scaled.size(1)))
    shares = scaled.softmax(-1)
    # A token stays while those before it have not yet reached top_p; the first always does.
    before = torch.cat((torch.zeros_like(shares[:, :1]), shares.cumsum(-1)[:, :-1]), dim=-1)
    return shares.masked_fill(before >= config.top_p, 0.0), tokens


def _uniforms(request: Request, keys: Sequence[int]) -> Tensor:
    """(C · n_best, longest limit). Drawn in single precision: times a total in double it stays below that total."""
    longest = int(request.limits.max())
    generators = (
        np.random.default_rng([request.config.seed, key, number])
        for key in keys
        for number in range(request.config.n_best)
    )
    rows = [generator.random(longest, dtype=np.float32) for generator in generators]
    return torch.from_numpy(np.array(rows, dtype=np.float64)).to(request.device)
