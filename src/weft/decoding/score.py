"""The score of a given text: the log-probability and the rank of each token, in one pass.

The numbers are those that a search would add up for the same tokens, with no token forbidden.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import torch
from torch import Tensor

POSITIONS_AT_ONCE: Final = 512
"""Positions whose scores of all words are in memory together."""


class TokenScores(NamedTuple):
    """log_probabilities (M,) in float32, and ranks (M,): 1 is the likeliest token, equally likely ones rank alike.

    The likeliest C tokens at each place are `candidates` (M, C), with their log-probabilities `candidate_logs`.
    """

    log_probabilities: Tensor
    ranks: Tensor
    candidates: Tensor
    candidate_logs: Tensor


def score_tokens(
    output: Callable[[Tensor], Tensor], hidden: Tensor, expected: Tensor, *, candidates: int = 0
) -> TokenScores:
    """hidden (M, D) before each of the expected tokens (M,); output maps (…, D) to logits (…, V)."""
    logs, ranks, tokens_of, logs_of = [], [], [], []
    for states, tokens in zip(
        torch.split(hidden, POSITIONS_AT_ONCE), torch.split(expected, POSITIONS_AT_ONCE), strict=True
    ):
        every = output(states).float().log_softmax(-1)
        own = every.gather(1, tokens[:, None])
        logs.append(own.squeeze(1))
        ranks.append((every > own).sum(1) + 1)
        best = every.topk(min(candidates, every.size(1)))
        logs_of.append(best.values)
        tokens_of.append(best.indices)
    return TokenScores(*map(torch.cat, (logs, ranks, tokens_of, logs_of)))
