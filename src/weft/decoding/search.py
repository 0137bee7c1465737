"""The door to search: greedy for a beam of 1, beam search for more, sampling on request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch

from weft.decoding.beam import search_beam
from weft.decoding.config import DecodeConfig
from weft.decoding.greedy import search_greedy
from weft.decoding.hypothesis import Hypothesis, best_first
from weft.decoding.request import prepare
from weft.decoding.sample import search_sample
from weft.decoding.trail import End, Trail
from weft.errors import ConfigError
from weft.models.stepper import Stepper
from weft.text import MASK, PAD, SOS

NEVER: Final = (PAD, SOS, MASK)
"""Tokens that are never proposed."""


@torch.no_grad()
def search(
    model: Stepper,
    memory: Any,
    count: int,
    config: DecodeConfig,
    *,
    prefixes: Sequence[Sequence[int]] | None = None,
    limits: Sequence[int] | None = None,
    forbid: Sequence[int] = NEVER,
    keys: Sequence[int] | None = None,
) -> list[list[Hypothesis]]:
    """The n_best hypotheses, best first, for each of `count` sentences of the memory.

    prefixes: tokens that a sentence is made to begin with; they count in neither score nor length. limits: the most
    tokens of each sentence, where config.max_length is too generous. keys: numbers that tell the sentences apart when
    sampling (their place in the file, say; by default their place in this batch). What is found for a sentence does
    not depend on the others. A list is shorter than n_best only where no more texts are possible. The model should be
    in evaluation mode.
    """
    if count == 0:
        return []
    request = prepare(model, count, config, prefixes=prefixes, limits=limits, forbid=forbid)
    keys = range(count) if keys is None else keys
    if len(keys) != count:
        raise ConfigError(f"{len(keys)} are given for {count} sentences", where="keys", cure="one for each")
    if config.sample:
        trail, ends = search_sample(model, memory, request, keys)
    elif config.beam == 1:
        trail, ends = search_greedy(model, memory, request)
    else:
        trail, ends = search_beam(model, memory, request)
    found: list[list[Hypothesis]] = [[] for _ in range(count)]
    first = request.prefix_lengths.tolist()
    for end in ends:
        found[end.sentence].append(_read(trail, end, first[end.sentence], config.length_penalty))
    return [best_first(hypotheses) for hypotheses in found]


def _read(trail: Trail, end: End, first: int, length_penalty: float) -> Hypothesis:
    tokens, logs, attention = trail.read(end.step, end.candidate, first=first)
    score = sum(logs) / len(logs) ** length_penalty
    said = tokens[:-1] if end.finished else tokens
    return Hypothesis(tuple(said), score, tuple(logs), end.finished, attention)
