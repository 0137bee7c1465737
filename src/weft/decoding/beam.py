"""Beam search: the K best hypotheses of each sentence, extended together. With K = 1 it is greedy search.

At each step every hypothesis of a sentence proposes its next tokens. Of the proposals that do not end the text, the K
with the highest sums stay in the beam: an end takes no place from them. An end counts as finished if it is among the K
likeliest of all proposals, ends included. A sentence stops when its length limit is reached or no hypothesis is
left, and

- with stop = "bound", when n_best have finished and no other can become better than the last of them: a sum only falls,
  and the length is at most the limit, so sum / limit^α bounds its score from above;
- with stop = "finished", or where phrases are required, when K hypotheses, or as many as `finished`, have finished:
  under the mean, a text could make up for an unlikely phrase by repeating likely ones up to the limit;
- with K = 1, when the hypothesis ends.

A token that completes a stop string is an end too. With penalties the search ranks by the penalised log-probabilities;
those of the model are stored. With a beam wide enough to keep everything this is exhaustive search. A slots, K
hypotheses of each, V tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor

from weft.decoding.beam_state import BeamState, NextTokens
from weft.decoding.diverse import choose_diverse
from weft.decoding.proposals import Proposals, likeliest
from weft.decoding.request import Request
from weft.decoding.required import choose_required
from weft.decoding.trace import SearchListener


def advance_beam(
    beams: BeamState,
    logits: Tensor,
    request: Request,
    attention: Tensor | None,
    listener: SearchListener | None = None,
) -> Tensor:
    """logits (A·K, V) -> the row (A·K,) that each row continues. The beams are advanced by one step."""
    following = beams.next_tokens(logits, request)
    found = _propose(beams, following, request)
    if listener is not None:
        listener.step(beams, following, found)
    beams.append(found.tokens, found.logs, found.places, attention)
    _finish(beams, found, request)
    beams.advance(found.tokens, found.sums, _stops(beams, found.sums, request))
    return (beams.slots[:, None] * beams.shape.width + found.places).flatten()


def _propose(beams: BeamState, following: NextTokens, request: Request) -> Proposals:
    """The continuations of each sentence; inside its prefix there is one."""
    found = _choose(beams, following, request)
    inside = beams.inside[:, None]
    alone = torch.full_like(found.sums, -torch.inf)
    alone[:, 0] = 0.0
    return Proposals(
        torch.where(inside, alone, found.sums),
        torch.where(inside, beams.forced[:, None], found.tokens),
        found.logs,
        found.places.masked_fill(inside, 0),
        found.ends.masked_fill(inside, -torch.inf),
        found.end_logs,
        found.end_tokens,
        found.end_places,
    )


def _choose(beams: BeamState, following: NextTokens, request: Request) -> Proposals:
    """The continuations, as the settings choose them."""
    config = request.config
    every, model, ending = following
    if request.requires:
        found = choose_required(beams, every, ending)
    elif config.groups > 1:
        groups, diversity = config.groups, config.diversity
        found = choose_diverse(beams.sums, every, beams.live, groups=groups, diversity=diversity, ending=ending)
    else:
        found = likeliest(beams.sums, every, ending)
    if model is every:
        return found
    of_model = model.view(beams.shape.slots, beams.shape.width, -1).flatten(1)
    logs, end_logs = (
        of_model.gather(1, places * model.size(1) + tokens)
        for tokens, places in ((found.tokens, found.places), (found.end_tokens, found.end_places))
    )
    return found._replace(logs=logs, end_logs=end_logs)


def _finish(beams: BeamState, found: Proposals, request: Request) -> None:
    """Add the hypotheses that end now to the best of their sentence."""
    ends = found.ends.masked_fill(~beams.live[:, None], -torch.inf)
    scores, n_best = request.scores(ends, beams.lengths[:, None]), beams.shape.n_best
    every = torch.cat((beams.best, scores.to(beams.best.dtype)), 1)
    # A slot that has stopped does not change, nor does its order: it may be read while others search.
    picks = torch.where(beams.live[:, None], every.topk(n_best).indices, torch.arange(n_best, device=beams.device))
    parts = (
        (beams.best_step, beams.step[:, None].expand_as(ends)),
        (beams.best_place, found.end_places),
        (beams.best_token, found.end_tokens),
        (beams.best_log, found.end_logs.to(beams.best.dtype)),
    )
    beams.best.copy_(every.gather(1, picks))
    for kept, new in parts:
        kept.copy_(torch.cat((kept, new), 1).gather(1, picks))
    beams.ended.add_((ends > -torch.inf).sum(1))


def _stops(beams: BeamState, sums: Tensor, request: Request) -> Tensor:
    """(A,) whether a sentence is done; the bound of an empty beam is -inf, so it stops too."""
    bound = request.scores(sums.amax(1), beams.limit)
    enough = (beams.ended >= request.finished) | (bound == -torch.inf)
    if request.by_bound:
        passed = bound <= beams.best.amin(1)
        enough = (
            passed
            if beams.constraints is None
            else torch.where(beams.constraints.requires(beams.device), enough, passed)
        )
    return (beams.lengths >= beams.limit) | enough
