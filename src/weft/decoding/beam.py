"""Beam search: the best few beginnings of each sentence, extended together. With a beam of 1 it is greedy search.

At each step every hypothesis of a sentence proposes its next tokens, and of all proposals the K likeliest sums stay.
Those that end with eos are finished and free their place; the others go on. A sentence stops when

- K hypotheses have finished, or none is left to go on, or its length limit is reached;
- or n_best have finished and none that goes on can pass the last of them: a sum only falls, and the most it can gain
  by length is the limit's, so sum / limit^α bounds its score from above.

With a beam wide enough to keep everything this is exhaustive search. A lanes, K hypotheses of each, V tokens.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from weft.decoding.board import Board
from weft.decoding.request import Request


class Proposals(NamedTuple):
    """The K likeliest continuations of each sentence, all (A, K); places says which hypothesis each extends."""

    sums: Tensor
    tokens: Tensor
    logs: Tensor
    places: Tensor


def advance_beam(board: Board, logits: Tensor, request: Request, attention: Tensor | None) -> Tensor:
    """logits (A·K, V) -> the row (A·K,) that each row continues now. The board is one step further."""
    found = _propose(board, logits, request)
    board.note(found.tokens, found.logs, found.places, attention)
    sums = _finish(board, found, request)
    board.go_on(found.tokens, sums, _stops(board, sums, request))
    return (board.lanes[:, None] * board.shape.width + found.places).flatten()


def _propose(board: Board, logits: Tensor, request: Request) -> Proposals:
    """The K best of each sentence's proposals; within its prefix a sentence has one."""
    width = board.shape.width
    every = request.log_probabilities(logits, board.lengths.repeat_interleave(width))
    # No row can place more than K, so each row's best are enough to choose from.
    per_row = min(width, every.size(1))
    logs, tokens = every.topk(per_row)
    sums = (board.sums.view(-1, 1) + logs).view(-1, width * per_row)
    sums, picks = sums.topk(width)
    tokens, logs = (part.view(-1, width * per_row).gather(1, picks) for part in (tokens, logs))

    inside = board.inside[:, None]
    alone = torch.full_like(sums, -torch.inf)
    alone[:, 0] = 0.0
    places = (picks // per_row).masked_fill(inside, 0)
    return Proposals(torch.where(inside, alone, sums), torch.where(inside, board.forced[:, None], tokens), logs, places)


def _finish(board: Board, found: Proposals, request: Request) -> Tensor:
    """Proposals that end join the best of their sentence; the sums (A, K) of the others go on."""
    ends = board.ends(found.tokens)
    scores = request.scores(found.sums, board.lengths[:, None]).masked_fill(~(ends & board.live[:, None]), -torch.inf)
    best, picks = torch.cat((board.best, scores), 1).topk(board.shape.n_best)
    steps = torch.cat((board.best_step, board.step[:, None].expand_as(found.tokens)), 1)
    places = torch.cat((board.best_place, torch.arange(board.shape.width, device=board.device).expand_as(ends)), 1)
    board.best.copy_(best)
    board.best_step.copy_(steps.gather(1, picks))
    board.best_place.copy_(places.gather(1, picks))
    board.ended.add_((scores > -torch.inf).sum(1))
    return found.sums.masked_fill(ends, -torch.inf)


def _stops(board: Board, sums: Tensor, request: Request) -> Tensor:
    """(A,) which sentences are done; an empty beam's bound is -inf, so it stops too."""
    bound = request.scores(sums.amax(1), board.limit)
    return (board.ended >= board.shape.width) | (board.lengths >= board.limit) | (bound <= board.best.amin(1))
