"""Streaming: the tokens of the best text of one sentence, as soon as the search has decided them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from weft.decoding.config import DecodeConfig
from weft.decoding.constraints import Constraint
from weft.decoding.request import Request, prepare
from weft.decoding.search import NEVER, Search
from weft.decoding.stops import StopStrings
from weft.errors import ConfigError
from weft.models.stepper import FixedStepper, Stepper, can_prefill


def stream(
    model: Stepper | FixedStepper,
    memory: Any,
    config: DecodeConfig,
    *,
    prefix: Sequence[int] = (),
    source: Sequence[int] = (),
    limit: int | None = None,
    forbid: Sequence[int] = NEVER,
    key: int = 0,
    constraint: Constraint | None = None,
    stops: StopStrings | None = None,
) -> Iterator[tuple[int, ...]]:
    """Yield new tokens of the best text after each step that decides some; together they are what `search` finds.

    Greedy search and sampling decide one token a step. A beam has decided the tokens that all its hypotheses share with
    each other and with the best one that has ended. Errors in the request are raised before the first step.
    """
    if config.sample and config.n_best > 1:
        raise ConfigError(
            f"n_best = {config.n_best} texts cannot be streamed together", where="stream", cure="n_best = 1"
        )
    constraints = None if constraint is None else [constraint]
    limits = None if limit is None else [limit]
    request = prepare(
        model,
        1,
        config,
        prefixes=[prefix],
        sources=[source],
        limits=limits,
        forbid=forbid,
        keys=[key],
        constraints=constraints,
        stops=stops,
        can_prefill=can_prefill(model),
    )
    return _follow(model, memory, request)


@torch.inference_mode()
def _follow(model: Stepper | FixedStepper, memory: Any, request: Request) -> Iterator[tuple[int, ...]]:
    """The tokens that each step of the search decides."""
    search, sent = Search(model, memory, request, attention=False), 0
    for ended in search.run(max_steps=1):
        if ended:
            ((_, found),) = ended
            sure = found[0].tokens if found else ()
        else:
            sure = search.decided(0)
        if len(sure) > sent:
            yield sure[sent:]
            sent = len(sure)
