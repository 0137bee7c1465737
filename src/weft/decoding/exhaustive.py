"""Exhaustive search: every text up to the length limit, for small problems. The oracle of the others.

It works on one row at a time and by recursion, so that it shares no code or idea with the searches that it checks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import torch

from weft.decoding.automaton import Phrase
from weft.decoding.config import DecodeConfig
from weft.decoding.constraints import Constraint, contains
from weft.decoding.hypothesis import Hypothesis, best_first
from weft.decoding.request import Request, prepare
from weft.decoding.search import NEVER
from weft.errors import ConfigError
from weft.models.stepper import Stepper
from weft.nn.state import State
from weft.text import EOS, SOS

MAX_TEXTS: Final = 1_000_000
"""Texts beyond which it would take too long."""


@torch.no_grad()
def search_exhaustive(
    model: Stepper,
    memory: Any,
    count: int,
    config: DecodeConfig,
    *,
    prefixes: Sequence[Sequence[int]] | None = None,
    limits: Sequence[int] | None = None,
    forbid: Sequence[int] = NEVER,
    constraints: Sequence[Constraint] | None = None,
) -> list[list[Hypothesis]]:
    """The result of `search` for a beam that keeps everything, without attention."""
    request = prepare(model, count, config, prefixes=prefixes, limits=limits, forbid=forbid, constraints=constraints)
    every = constraints or [Constraint()] * count
    return [_search_one(model, memory, request, sentence, every[sentence]) for sentence in range(count)]


def _search_one(
    model: Stepper, memory: Any, request: Request, sentence: int, constraint: Constraint
) -> list[Hypothesis]:
    state = model.start(memory, torch.tensor([sentence], device=request.device))
    token, prefix = SOS, request.prefixes[sentence, : request.prefix_lengths[sentence]].tolist()
    for forced in prefix:
        _, state, _ = model.step(torch.tensor([token], device=request.device), state)
        token = forced
    limit = int(request.limits[sentence])
    found = [
        Hypothesis(
            tokens,
            sum(logs) / len(logs) ** request.config.length_penalty,
            logs,
            finished,
            missing=constraint.missing(tokens, starts=not prefix),
        )
        for tokens, logs, finished in _extend(model, request, (token, state), (), limit)
        if not any(_says((SOS, *prefix), (*tokens, *[EOS] * finished), phrase) for phrase in constraint.forbid)
    ]
    return best_first(one for one in found if not (one.finished and one.missing))[: request.config.n_best]


def _says(before: Sequence[int], tokens: Sequence[int], phrase: Phrase) -> bool:
    """Whether the phrase ends among the tokens; it may begin before them."""
    first = max(0, len(before) + 1 - len(phrase))
    return contains((*before[first:], *tokens), phrase)


def _extend(
    model: Stepper, request: Request, last: tuple[int, State], logs: tuple[float, ...], limit: int
) -> Iterator[tuple[tuple[int, ...], tuple[float, ...], bool]]:
    """All texts that follow token and state `last`: their tokens, all log-probabilities, whether they ended."""
    device = request.device
    logits, state, _ = model.step(torch.tensor([last[0]], device=device), last[1])
    if not logs and (logits.size(1) - len(request.forbidden)) ** limit > MAX_TEXTS:
        what = f"{logits.size(1)} tokens and {limit} steps make too many texts to try them all"
        raise ConfigError(what, where="max_length", cure="search with a beam")
    possible = request.log_probabilities(logits, torch.tensor([len(logs) + 1], device=device))[0].tolist()
    for token, log in enumerate(possible):
        if log == -torch.inf:
            continue
        so_far = (*logs, log)
        if token == EOS:
            yield (), so_far, True
        elif len(so_far) == limit:
            yield (token,), so_far, False
        else:
            for rest, all_logs, finished in _extend(model, request, (token, state), so_far, limit):
                yield (token, *rest), all_logs, finished
