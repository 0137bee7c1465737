"""Which continuations a beam takes: the likeliest ones.

A lanes, K hypotheses of each, V tokens.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Proposals(NamedTuple):
    """K continuations of each lane, all (A, K); places says which hypothesis each extends."""

    sums: Tensor
    tokens: Tensor
    logs: Tensor
    places: Tensor


def likeliest(sums: Tensor, every: Tensor) -> Proposals:
    """sums (A, K) so far, log-probabilities (A·K, V) of what may follow -> the K highest new sums of each lane."""
    width, per_row = sums.size(1), min(sums.size(1), every.size(1))
    # No row can place more than K, so each row's best are enough to choose from.
    logs, tokens = every.topk(per_row)
    new, picks = (sums.view(-1, 1) + logs).view(-1, width * per_row).topk(width)
    tokens, logs = (part.view(-1, width * per_row).gather(1, picks) for part in (tokens, logs))
    return Proposals(new, tokens, logs, picks // per_row)
