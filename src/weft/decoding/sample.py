"""Sampling: tokens drawn by their probability, which temperature, top-k, top-p and min-p reshape in this order.

The hypotheses of a sentence are independent texts. A slots, K texts of each, N = A·K rows, V tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor

from weft.decoding.beam_state import BeamState
from weft.decoding.config import DecodeConfig
from weft.decoding.request import Request
from weft.text import EOS


def advance_sample(beams: BeamState, logits: Tensor, request: Request, attention: Tensor | None) -> None:
    """logits (N, V): advance the beams by one step; every row continues itself."""
    width, lengths = beams.shape.width, beams.lengths
    every, model, ending = beams.next_tokens(logits, request)
    column = (lengths - 1).clamp(min=0, max=beams.uniforms.size(2) - 1)
    uniforms = beams.uniforms.gather(2, column[:, None, None].expand(-1, width, 1)).flatten()
    drawn = draw(every, uniforms, request.config).view(-1, width)
    inside = beams.inside[:, None]
    tokens = torch.where(inside, beams.forced[:, None], drawn)
    searched, logs = (part.gather(1, tokens.view(-1, 1)).view_as(tokens) for part in (every, model))
    logs = torch.where(searched > -torch.inf, logs, searched)
    over = tokens == EOS if ending is None else ending.gather(1, tokens.view(-1, 1)).view_as(tokens)
    places = torch.arange(width, device=beams.device).expand_as(tokens)
    beams.append(tokens, logs, places, attention)

    open_ = (beams.sums > -torch.inf) & beams.live[:, None]
    # Where every token has probability 0, as in an unsmoothed count model, the text ends here: its place is empty.
    sums = torch.where(inside, beams.sums, beams.sums + logs)
    ends = over & ~inside & open_ & (sums > -torch.inf)
    beams.best.copy_(torch.where(ends, request.scores(sums, lengths[:, None]), beams.best))
    beams.best_step.copy_(torch.where(ends, beams.step[:, None], beams.best_step))
    beams.best_place.copy_(torch.where(ends, places, beams.best_place))
    beams.best_token.copy_(torch.where(ends, tokens, beams.best_token))
    beams.best_log.copy_(torch.where(ends, logs, beams.best_log))
    sums = sums.masked_fill(ends, -torch.inf)
    beams.advance(tokens, sums, (sums == -torch.inf).all(1) | (lengths >= beams.limit))


def draw(log_probabilities: Tensor, uniforms: Tensor, config: DecodeConfig) -> Tensor:
    """log-probabilities (N, V), uniforms (N,) in [0, 1) -> tokens (N,): the first whose cumulative share passes."""
    shares, tokens = reshape(log_probabilities, config)
    cumulative = shares.cumsum(-1)
    target = uniforms[:, None] * cumulative[:, -1:]
    place = (cumulative <= target).sum(-1, keepdim=True).clamp(max=shares.size(1) - 1)
    return tokens.gather(1, place).squeeze(1)


def reshape(log_probabilities: Tensor, config: DecodeConfig) -> tuple[Tensor, Tensor]:
    """log-probabilities (N, V) -> probabilities (N, M) to draw by, up to a factor, and their tokens (N, M)."""
    size = log_probabilities.size(1)
    if not config.top_k and config.top_p == 1.0:
        tokens = torch.arange(size, device=log_probabilities.device).expand_as(log_probabilities)
        shares = (log_probabilities.double() / config.temperature).softmax(-1)
    else:
        if 0 < config.top_k < size:
            ordered, tokens = log_probabilities.topk(config.top_k)
        else:  # equally likely tokens, of which counts have many, in a fixed order: exported models draw the same ones
            ordered, tokens = log_probabilities.sort(dim=-1, descending=True, stable=True)
        shares = (ordered.double() / config.temperature).softmax(-1)
        # A token stays if those before it have less than top_p together; so the first always stays.
        before = torch.cat((torch.zeros_like(shares[:, :1]), shares.cumsum(-1)[:, :-1]), dim=-1)
        shares = shares.masked_fill(before >= config.top_p, 0.0)
    if config.min_p:
        shares = shares.masked_fill(shares < config.min_p * shares.amax(-1, keepdim=True), 0.0)
    return shares, tokens
