"""The continuations that a beam takes: the K likeliest that do not end, and ends among the K likeliest of all.

A slots, K hypotheses of each, V tokens.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from weft.text import EOS


class Proposals(NamedTuple):
    """K continuations of each slot that do not end, and the hypotheses that do, all (A, K)."""

    sums: Tensor
    tokens: Tensor
    logs: Tensor
    places: Tensor
    """The place in the beam of the hypothesis that each continuation extends."""
    ends: Tensor
    """The sums of hypotheses that end now; -inf where K other continuations are likelier."""
    end_logs: Tensor
    """The log-probability of each end."""
    end_tokens: Tensor
    """The end token, or one that completes a stop string."""
    end_places: Tensor
    """The place of the hypothesis that each end extends; without stop strings its own."""


def likeliest(sums: Tensor, every: Tensor, ending: Tensor | None = None) -> Proposals:
    """sums (A, K) so far, log-probabilities (A·K, V) of the next token, and whether a token ends the text, where not
    only the end token does -> the continuations with the highest sums."""
    if ending is not None:
        return _likeliest_of_many_ends(sums, every, ending)
    width, per_row = sums.size(1), min(sums.size(1) + 1, every.size(1))
    # A row has at most K of the continuations, so its K + 1 best tokens, one of which may be the end, are enough.
    logs, tokens = every.topk(per_row)
    logs = logs.masked_fill(tokens == EOS, -torch.inf)
    new, picks = (sums.view(-1, 1) + logs).view(-1, width * per_row).topk(width)
    tokens, logs = (part.view(-1, width * per_row).gather(1, picks) for part in (tokens, logs))
    end_logs = every[:, EOS].view_as(sums)
    return Proposals(
        new, tokens, logs, picks // per_row, among_best(sums + end_logs, new), end_logs, *own_ends(end_logs)
    )


def own_ends(ends: Tensor) -> tuple[Tensor, Tensor]:
    """Tokens and places (A, K) where each place ends by the end token."""
    places = torch.arange(ends.size(1), device=ends.device).expand_as(ends)
    return torch.full_like(places, EOS), places


def _likeliest_of_many_ends(sums: Tensor, every: Tensor, ending: Tensor) -> Proposals:
    """`likeliest` where a hypothesis can end in several ways."""
    new, tokens, logs, places = best_of(sums, every.masked_fill(ending, -torch.inf))
    ends, end_tokens, end_logs, end_places = best_of(sums, every.masked_fill(~ending, -torch.inf))
    return Proposals(new, tokens, logs, places, among_best(ends, new), end_logs, end_tokens, end_places)


def best_of(sums: Tensor, every: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """sums (A, K), log-probabilities (A·K, V) -> the K highest sums of each slot, tokens, log-probabilities, places."""
    width, per_row = sums.size(1), min(sums.size(1), every.size(1))
    logs, tokens = every.topk(per_row)
    new, picks = (sums.view(-1, 1) + logs).view(-1, width * per_row).topk(width)
    tokens, logs = (part.view(-1, width * per_row).gather(1, picks) for part in (tokens, logs))
    return new, tokens, logs, picks // per_row


def among_best(ends: Tensor, others: Tensor) -> Tensor:
    """Sums (A, K) that end, -inf where K or more of the ends and of the others (A, K) are higher."""
    every = torch.cat((ends, others), dim=1)
    higher = (every[:, None, :] > ends[:, :, None]).sum(2)
    return ends.masked_fill(higher >= ends.size(1), -torch.inf)
