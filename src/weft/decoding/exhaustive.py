"""Exhaustive search: every text up to the length limit, for small problems. The oracle of the others.

It works on one row at a time and by recursion, so that it shares no code or idea with the searches that it checks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import torch

from weft.decoding.automaton import Phrase
from weft.decoding.config import DecodeConfig
from weft.decoding.constraints import Constraint, contains
from weft.decoding.hypothesis import Hypothesis, best_first
from weft.decoding.request import Request, prepare
from weft.decoding.search import NEVER
from weft.decoding.stops import StopStrings
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
    stops: StopStrings | None = None,
) -> list[list[Hypothesis]]:
    """The result of `search` for a beam that keeps everything, without attention."""
    request = prepare(
        model, count, config, prefixes=prefixes, limits=limits, forbid=forbid, constraints=constraints, stops=stops
    )
    every = constraints or [Constraint()] * count
    return [_search_one(model, memory, Asked(request, sentence, every[sentence], stops)) for sentence in range(count)]


class Asked(NamedTuple):
    """The search for one sentence."""

    request: Request
    sentence: int
    constraint: Constraint
    stops: StopStrings | None

    @property
    def prefix(self) -> list[int]:
        found = self.request.prefixes[self.sentence, : self.request.prefix_lengths[self.sentence]]
        return [int(token) for token in found]

    def stopped(self, tokens: Sequence[int]) -> bool:
        """Whether the tokens after the prefix contain a stop string."""
        return self.stops is not None and self.stops.stops(tokens, self.prefix)

    def early(self, tokens: Sequence[int]) -> bool:
        """Whether a text of these tokens may not end."""
        missing = self.constraint.missing(tokens[:-1], starts=not self.prefix)
        return len(tokens) <= self.request.config.min_length or bool(missing)


class SearchPath(NamedTuple):
    """A text: its tokens, their log-probabilities and that of the end, those with penalties, and whether it ended."""

    tokens: tuple[int, ...]
    logs: tuple[float, ...]
    ranks: tuple[float, ...]
    finished: bool


def _search_one(model: Stepper, memory: Any, asked: Asked) -> list[Hypothesis]:
    request, sentence, constraint, _ = asked
    state = model.start(memory, torch.tensor([sentence], device=request.device))
    token, prefix = SOS, asked.prefix
    for forced in prefix:
        _, state, _ = model.step(torch.tensor([token], device=request.device), state)
        token = forced
    power = request.config.length_penalty
    found = []
    for tokens, logs, ranks, finished in _extend(model, asked, (token, state), SearchPath((), (), (), finished=False)):
        stopped = asked.stopped(tokens)
        end = [EOS] * (finished and not stopped)
        if any(_says((SOS, *prefix), (*tokens, *end), phrase) for phrase in constraint.forbid):
            continue
        found.append(
            Hypothesis(
                tokens,
                sum(logs) / len(logs) ** power,
                logs,
                finished,
                missing=constraint.missing(tokens, starts=not prefix),
                stopped=stopped,
                rank=sum(ranks) / len(ranks) ** power if request.config.penalises else None,
            )
        )
    return best_first(one for one in found if not (one.finished and one.missing))[: request.config.n_best]


def _says(before: Sequence[int], tokens: Sequence[int], phrase: Phrase) -> bool:
    """Whether the phrase ends among the tokens; it may begin before them."""
    first = max(0, len(before) + 1 - len(phrase))
    return contains((*before[first:], *tokens), phrase)


def _extend(model: Stepper, asked: Asked, last: tuple[int, State], so_far: SearchPath) -> Iterator[SearchPath]:
    """All texts that begin with `so_far` and continue from token and state `last`."""
    request, device = asked.request, asked.request.device
    limit, said = int(request.limits[asked.sentence]), so_far.tokens
    logits, state, _ = model.step(torch.tensor([last[0]], device=device), last[1])
    if not said and (logits.size(1) - len(request.forbidden)) ** limit > MAX_TEXTS:
        what = f"{logits.size(1)} tokens and {limit} steps make too many texts to try them all"
        raise ConfigError(what, where="max_length", cure="search with a beam")
    changed = torch.tensor([_penalise(logits[0].tolist(), asked.prefix, said, request.config)], dtype=logits.dtype)
    length = torch.tensor([len(said) + 1], device=device)
    own, ranked = (request.log_probabilities(z.to(device), length)[0].tolist() for z in (logits, changed))
    for token, (log, rank) in enumerate(zip(own, ranked, strict=True)):
        if log == -torch.inf:
            continue
        logs, ranks = (*so_far.logs, log), (*so_far.ranks, rank)
        tokens = said if token == EOS else (*said, token)
        stopped = asked.stopped(tokens)
        if stopped and asked.early(tokens):
            continue
        if token == EOS or stopped or len(logs) == limit:
            yield SearchPath(tokens, logs, ranks, token == EOS or stopped)
        else:
            yield from _extend(model, asked, (token, state), SearchPath(tokens, logs, ranks, finished=False))


def _penalise(logits: list[float], prompt: Sequence[int], said: Sequence[int], config: DecodeConfig) -> list[float]:
    """The logits z of the next token with the penalties of `weft.decoding.penalties`, one after another."""
    changed = list(logits)
    for token in {*prompt, *said}:
        rho = config.repetition_penalty
        changed[token] = changed[token] / rho if changed[token] > 0 else changed[token] * rho
    for token in said:
        changed[token] -= config.frequency_penalty
    for token in set(said):
        changed[token] -= config.presence_penalty
    return changed
