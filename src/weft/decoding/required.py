"""Required words: lexically constrained search by dynamic beam allocation (Post & Vilar, 2018).

The candidates of a step are the best continuations of every hypothesis and, whatever their probability, the tokens that
continue a missing phrase. They are sorted into banks by the number of required tokens they still need; the places of
the beam are divided among the banks, so that a hypothesis with few required tokens cannot displace one with more. A
hypothesis ends if its end gets a place; the places of the others are then divided without the ends.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from weft.decoding.beam_state import BeamState
from weft.decoding.constraints import CompiledConstraint, Progress
from weft.decoding.proposals import Proposals
from weft.text import EOS, PAD


class Continuation(NamedTuple):
    """A candidate: its sum, the place of the hypothesis that it extends, the token and its log-probability, and whether
    the token ends the text."""

    sum: float
    place: int
    token: int
    log: float
    over: bool


def choose_required(beams: BeamState, every: Tensor, ending: Tensor | None = None) -> Proposals:
    """Log-probabilities (A·K, V), and whether a token ends the text, as in `likeliest` -> the continuations of each
    slot."""
    assert beams.constraints is not None
    width = beams.shape.width
    if ending is None:
        ending = torch.zeros_like(every, dtype=torch.bool)
        ending[:, EOS] = True
    vocabulary = every.size(1)
    wanted = torch.tensor(_wanted(beams), dtype=torch.long, device=every.device)
    likeliest = every.topk(min(width + 1, vocabulary)).indices
    going = every.masked_fill(ending, -torch.inf).topk(min(width, vocabulary)).indices
    tokens = torch.cat((likeliest, going, wanted), 1)
    parts = (tokens, every.gather(1, tokens), ending.gather(1, tokens))
    proposed = [list(zip(*row, strict=True)) for row in zip(*(part.tolist() for part in parts), strict=True)]
    sums, searching = beams.sums.tolist(), (beams.live & ~beams.inside).tolist()
    empty = Continuation(-torch.inf, 0, PAD, -torch.inf, over=False)
    chosen: list[list[Continuation]] = []
    ended: list[list[Continuation]] = []
    for slot, compiled in enumerate(beams.constraints.compiled):
        rows = range(slot * width, (slot + 1) * width)
        candidates = {
            (place, token): Continuation(sums[slot][place] + log, place, token, log, over)
            for place, row in enumerate(rows)
            for token, log, over in proposed[row]
        }
        possible = [one for one in candidates.values() if one.sum > -torch.inf]
        taken: list[Continuation] = []
        ends: list[Continuation] = []
        if compiled and searching[slot]:
            progress = beams.constraints.progress[slot]
            ends = [one for one in _allocate(possible, compiled, progress, width) if one.over]
            taken = _allocate([one for one in possible if not one.over], compiled, progress, width)
        chosen.append(taken + [empty] * (width - len(taken)))
        ended.append(ends + [empty] * (width - len(ends)))
    new, tokens, logs, places = _tensors(chosen, every)
    end_sums, end_tokens, end_logs, end_places = _tensors(ended, every)
    return Proposals(new, tokens, logs, places, end_sums, end_logs, end_tokens, end_places)


def _tensors(chosen: list[list[Continuation]], every: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The sums, tokens, log-probabilities and places (A, K) of continuations."""
    real = torch.tensor([[(one.sum, one.log) for one in slot] for slot in chosen], dtype=every.dtype).to(every.device)
    whole = torch.tensor([[(one.token, one.place) for one in slot] for slot in chosen]).to(every.device)
    return real[..., 0], whole[..., 0], real[..., 1], whole[..., 1]


def _wanted(beams: BeamState) -> list[list[int]]:
    """The tokens of each row that continue a required phrase, padded to one size; padding is always forbidden."""
    assert beams.constraints is not None
    rows: list[tuple[int, ...]] = []
    for compiled, progress in zip(beams.constraints.compiled, beams.constraints.progress, strict=True):
        rows += [compiled.wanted(own) for own in progress] if compiled else [()] * beams.shape.width
    size = max(map(len, rows))
    return [[*row, *[PAD] * (size - len(row))] for row in rows]


def _allocate(
    candidates: list[Continuation], compiled: CompiledConstraint, progress: list[Progress], width: int
) -> list[Continuation]:
    """The best of each bank, as many as it has places, sorted by their sums."""
    banks: dict[int, list[Continuation]] = {}
    for one in sorted(candidates, key=lambda one: -one.sum):
        banks.setdefault(compiled.needed(compiled.read(progress[one.place], one.token)), []).append(one)
    fullest_last = [banks[needed] for needed in sorted(banks, reverse=True)]
    places = share_places(width, [len(bank) for bank in fullest_last])
    taken = [one for bank, count in zip(fullest_last, places, strict=True) for one in bank[:count]]
    return sorted(taken, key=lambda one: -one.sum)


def share_places(width: int, sizes: list[int]) -> list[int]:
    """The places of each bank, the one that needs fewest tokens last: equal shares, the remainder to the last. Places
    that a bank cannot fill go to the others one by one, from the last on."""
    if not sizes:
        return []
    places = [width // len(sizes)] * len(sizes)
    places[-1] += width % len(sizes)
    places = [min(share, size) for share, size in zip(places, sizes, strict=True)]
    free = min(width, sum(sizes)) - sum(places)
    while free:
        for bank in reversed(range(len(sizes))):
            if free and places[bank] < sizes[bank]:
                places[bank] += 1
                free -= 1
    return places
