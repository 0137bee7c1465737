"""Diverse beams (Vijayakumar et al., 2016): groups of a beam that avoid the words that other groups have just chosen.

The groups of a sentence have neighbouring slots and choose one after the other. Group g ranks a continuation of one
of its own hypotheses by

    sum + log p(token) - λ · (times that groups before g chose this token at this step)

and keeps the sum unchanged: scores are those of the model. S sentences, G groups of K hypotheses, V tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor

from weft.decoding.proposals import Proposals, likeliest


def choose_diverse(
    sums: Tensor, every: Tensor, live: Tensor, *, groups: int, diversity: float, ending: Tensor | None = None
) -> Proposals:
    """sums (S·G, K), log-probabilities (S·G·K, V), live slots (S·G,), and whether a token ends the text, as in
    `likeliest` -> the continuations of each slot."""
    width, vocabulary = sums.size(1), every.size(1)
    sums_SGK, every_SGKV = sums.view(-1, groups, width), every.view(-1, groups, width, vocabulary)
    live_SG = live.view(-1, groups)
    chosen_SV = every.new_zeros(sums_SGK.size(0), vocabulary)
    found: list[Proposals] = []
    for group in range(groups):
        own_sums, own = sums_SGK[:, group], every_SGKV[:, group]
        over_V = None if ending is None else ending.view_as(every_SGKV)[:, group].flatten(0, 1)
        ranked = likeliest(own_sums.contiguous(), (own - diversity * chosen_SV[:, None]).flatten(0, 1), over_V)
        logs = own.flatten(1).gather(1, ranked.places * vocabulary + ranked.tokens)
        new = own_sums.gather(1, ranked.places) + logs
        end_logs = own.flatten(1).gather(1, ranked.end_places * vocabulary + ranked.end_tokens)
        end_sums = own_sums.gather(1, ranked.end_places) + end_logs
        ends = torch.where(ranked.ends > -torch.inf, end_sums, -torch.inf)
        found.append(ranked._replace(sums=new, logs=logs, ends=ends, end_logs=end_logs))
        real, over = ((totals > -torch.inf) & live_SG[:, group, None] for totals in (new, ends))
        if width == 1:  # a group that ends has chosen nothing else
            real = real & ~over
        chosen_SV.scatter_add_(1, ranked.tokens, real.to(chosen_SV.dtype))
        chosen_SV.scatter_add_(1, ranked.end_tokens, over.to(chosen_SV.dtype))
    return Proposals(*(torch.stack(part, dim=1).flatten(0, 1) for part in zip(*found, strict=True)))
