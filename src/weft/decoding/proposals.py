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
    """The sum of each hypothesis if it ends now; -inf where K other continuations are likelier."""
    end_logs: Tensor
    """The log-probability of that end."""


def likeliest(sums: Tensor, every: Tensor) -> Proposals:
    """sums (A, K) so far, log-probabilities (A·K, V) of the next token -> the continuations with the highest sums."""
    width, per_row = sums.size(1), min(sums.size(1) + 1, every.size(1))
    # A row has at most K of the continuations, so its K + 1 best tokens, one of which may be the end, are enough.
    logs, tokens = every.topk(per_row)
    logs = logs.masked_fill(tokens == EOS, -torch.inf)
    new, picks = (sums.view(-1, 1) + logs).view(-1, width * per_row).topk(width)
    tokens, logs = (part.view(-1, width * per_row).gather(1, picks) for part in (tokens, logs))
    end_logs = every[:, EOS].view_as(sums)
    return Proposals(new, tokens, logs, picks // per_row, among_best(sums + end_logs, new), end_logs)


def among_best(ends: Tensor, others: Tensor) -> Tensor:
    """Sums (A, K) that end, -inf where K or more of the ends and of the others (A, K) are higher."""
    every = torch.cat((ends, others), dim=1)
    higher = (every[:, None, :] > ends[:, :, None]).sum(2)
    return ends.masked_fill(higher >= ends.size(1), -torch.inf)
