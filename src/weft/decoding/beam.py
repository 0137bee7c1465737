"""Beam search: the best few beginnings of each sentence, extended together.

At each step every hypothesis of a sentence proposes its next tokens, and of all proposals the `beam` likeliest sums
stay. Those that end with eos are finished and free their place; the others go on. A sentence stops when

- `beam` hypotheses have finished, or none is left to go on, or its length limit is reached;
- or n_best have finished and none that goes on can pass the last of them: a sum only falls, and the most it can gain
  by length is the limit's, so sum / limit^α bounds its score from above.

It then leaves the batch. With a beam wide enough to keep everything this is exhaustive search; with 1, greedy.

A sentences still searching, W hypotheses of each (1 at first), N = A·W rows in the model, K = beam, V tokens.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from weft.decoding.request import Request
from weft.decoding.trail import End, Trail, Written
from weft.models.stepper import Stepper
from weft.nn.state import select_rows
from weft.text import EOS, SOS


class Sentences(NamedTuple):
    """What each of the A sentences that are still searching has found."""

    numbers: Tensor
    """(A,) which sentence of the request."""
    sums: Tensor
    """(A, W) log-probability of each hypothesis that goes on; -inf is an empty place."""
    best: Tensor
    """(A, n_best) scores of the best finished ones, descending; -inf is none."""
    steps: Tensor
    """(A, n_best) the step at which each of those ended."""
    candidates: Tensor
    """(A, n_best) the candidate that it was there."""
    ended: Tensor
    """(A,) how many have finished."""


class Proposals(NamedTuple):
    """The K likeliest continuations of each sentence, all (A, K); rows says which of the N rows each extends."""

    sums: Tensor
    tokens: Tensor
    log_probabilities: Tensor
    rows: Tensor


def search_beam(model: Stepper, memory: Any, request: Request) -> tuple[Trail, list[End]]:
    """Where the best hypotheses of every sentence end, and the trail to read them from."""
    live = _begin(request)
    state = model.start(memory, live.numbers)
    tokens, origins = torch.full_like(live.numbers, SOS), live.numbers
    trail, ends, step = Trail(), list[End](), 0
    while live.numbers.numel():
        logits, state, attention = model.step(tokens, state)
        found = _propose(logits, live, request, step)
        flat = (found.tokens.flatten(), found.log_probabilities.flatten(), found.rows.flatten())
        trail.add(Written(*flat, origins, attention))
        live = _finish(live, found, request, step)
        stops = _stops(live, request, step)
        ends += _harvest(live, stops.nonzero().squeeze(1), request, step)
        places = (~stops).nonzero().squeeze(1)
        live = select_rows(live, places)
        origins = _candidates(found.tokens)[places].flatten()
        tokens, state = flat[0][origins], select_rows(state, flat[2][origins])
        step += 1
    return trail, ends


def _begin(request: Request) -> Sentences:
    numbers = torch.arange(request.count, device=request.device)
    none = numbers.new_zeros(request.count, request.config.n_best)
    sums = torch.zeros(request.count, 1, device=request.device)
    best = torch.full(none.shape, -torch.inf, device=request.device)
    return Sentences(numbers, sums, best=best, steps=none, candidates=none, ended=torch.zeros_like(numbers))


def _propose(logits: Tensor, live: Sentences, request: Request, step: int) -> Proposals:
    """logits (N, V) -> the K best of the A sentences' proposals; within its prefix a sentence has one."""
    sentences, width = live.sums.shape
    lengths = request.lengths(step, live.numbers).repeat_interleave(width)
    every = request.log_probabilities(logits, lengths)
    # No row can place more than K, so each row's best are enough to choose from.
    per_row = min(request.config.beam, every.size(1))
    values, tokens = every.topk(per_row)
    sums = (live.sums.view(-1, 1) + values).view(sentences, -1)
    sums, picks = sums.topk(min(request.config.beam, sums.size(1)))
    own_first = torch.arange(sentences, device=sums.device)[:, None] * width
    rows = own_first + picks // per_row
    tokens, values = (part.view(sentences, -1).gather(1, picks) for part in (tokens, values))

    inside, prefix = (part[:, None] for part in request.forced(step, live.numbers))
    alone = torch.full_like(sums, -torch.inf)
    alone[:, 0] = 0.0
    sums, rows = torch.where(inside, alone, sums), torch.where(inside, own_first, rows)
    return Proposals(sums, torch.where(inside, prefix, tokens), values, rows)


def _finish(live: Sentences, found: Proposals, request: Request, step: int) -> Sentences:
    """Proposals that end join the best of their sentence; the sums of the others go on."""
    lengths = request.lengths(step, live.numbers)[:, None]
    ending = (found.tokens == EOS) & (lengths > 0)
    scores = request.scores(found.sums, lengths).masked_fill(~ending, -torch.inf)
    best, picks = torch.cat((live.best, scores), 1).topk(request.config.n_best)
    steps = torch.cat((live.steps, torch.full_like(found.tokens, step)), 1)
    candidates = torch.cat((live.candidates, _candidates(found.tokens)), 1)
    return Sentences(
        numbers=live.numbers,
        sums=found.sums.masked_fill(ending, -torch.inf),
        best=best,
        steps=steps.gather(1, picks),
        candidates=candidates.gather(1, picks),
        ended=live.ended + (scores > -torch.inf).sum(1),
    )


def _stops(live: Sentences, request: Request, step: int) -> Tensor:
    """(A,) which sentences are done; an empty beam's bound is -inf, so it stops too."""
    limits = request.limits[live.numbers]
    bound = request.scores(live.sums.amax(1), limits)
    at_limit = request.lengths(step, live.numbers) >= limits
    return (live.ended >= request.config.beam) | at_limit | (bound <= live.best[:, -1])


def _harvest(live: Sentences, done: Tensor, request: Request, step: int) -> list[End]:
    """The n_best of the sentences at the places `done`; where too few have finished, those the limit cut fill up."""
    ends, width = [], live.sums.size(1)
    columns = (done.tolist(), *(part[done].tolist() for part in live))
    for row, number, sums, best, steps, candidates, _ in zip(*columns, strict=True):
        finished = [place for place, score in enumerate(best) if score > -torch.inf]
        cut = [place for place, total in enumerate(sums) if total > -torch.inf]
        own = [End(number, steps[place], candidates[place], finished=True) for place in finished]
        own += [End(number, step, row * width + place, finished=False) for place in cut]
        ends += own[: request.config.n_best]
    return ends


def _candidates(like: Tensor) -> Tensor:
    """The numbers (A, K) that the trail gives to the proposals of a step."""
    return torch.arange(like.numel(), device=like.device).view_as(like)
