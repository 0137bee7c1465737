"""Beam search: the best few beginnings of each sentence, extended together. With a beam of 1 it is greedy search.

At each step every hypothesis of a sentence proposes its next tokens, and of all proposals the K likeliest sums stay.
Those that end with eos are finished and free their place; the others go on. A sentence stops when

- K hypotheses have finished, or none is left to go on, or its length limit is reached;
- or, with stop = "bound", n_best have finished and none that goes on can pass the last of them: a sum only falls, and
  the most it can gain by length is the limit's, so sum / limit^α bounds its score from above.

With a beam wide enough to keep everything this is exhaustive search. A lanes, K hypotheses of each, V tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor

from weft.decoding.board import Board
from weft.decoding.diverse import choose_diverse
from weft.decoding.proposals import Proposals, likeliest
from weft.decoding.request import Request
from weft.decoding.required import choose_required


def advance_beam(board: Board, logits: Tensor, request: Request, attention: Tensor | None) -> Tensor:
    """logits (A·K, V) -> the row (A·K,) that each row continues now. The board is one step further."""
    found = _propose(board, logits, request)
    board.note(found.tokens, found.logs, found.places, attention)
    sums = _finish(board, found, request)
    board.go_on(found.tokens, sums, _stops(board, sums, request))
    return (board.lanes[:, None] * board.shape.width + found.places).flatten()


def _propose(board: Board, logits: Tensor, request: Request) -> Proposals:
    """The K continuations that each sentence takes; within its prefix a sentence has one."""
    found = _choose(board, logits, request)
    inside = board.inside[:, None]
    alone = torch.full_like(found.sums, -torch.inf)
    alone[:, 0] = 0.0
    return Proposals(
        torch.where(inside, alone, found.sums),
        torch.where(inside, board.forced[:, None], found.tokens),
        found.logs,
        found.places.masked_fill(inside, 0),
    )


def _choose(board: Board, logits: Tensor, request: Request) -> Proposals:
    """The K continuations, by the way of choosing that was asked for."""
    config = request.config
    every = board.log_probabilities(logits, request)
    if request.requires:
        return choose_required(board, every)
    if config.groups > 1:
        return choose_diverse(board.sums, every, board.live, groups=config.groups, diversity=config.diversity)
    return likeliest(board.sums, every)


def _finish(board: Board, found: Proposals, request: Request) -> Tensor:
    """Proposals that end join the best of their sentence; the sums (A, K) of the others go on."""
    ends = board.ends(found.tokens)
    scores = request.scores(found.sums, board.lengths[:, None]).masked_fill(~(ends & board.live[:, None]), -torch.inf)
    every, n_best = torch.cat((board.best, scores), 1), board.shape.n_best
    # A lane that has stopped stays as it is, in its order too: it may be read while others go on.
    picks = torch.where(board.live[:, None], every.topk(n_best).indices, torch.arange(n_best, device=board.device))
    steps = torch.cat((board.best_step, board.step[:, None].expand_as(found.tokens)), 1)
    places = torch.cat((board.best_place, torch.arange(board.shape.width, device=board.device).expand_as(ends)), 1)
    board.best.copy_(every.gather(1, picks))
    board.best_step.copy_(steps.gather(1, picks))
    board.best_place.copy_(places.gather(1, picks))
    board.ended.add_((scores > -torch.inf).sum(1))
    return found.sums.masked_fill(ends, -torch.inf)


def _stops(board: Board, sums: Tensor, request: Request) -> Tensor:
    """(A,) which sentences are done; an empty beam's bound is -inf, so it stops too."""
    bound = request.scores(sums.amax(1), board.limit)
    done = bound <= board.best.amin(1) if request.config.stop == "bound" else bound == -torch.inf
    return (board.ended >= board.shape.width) | (board.lengths >= board.limit) | done
