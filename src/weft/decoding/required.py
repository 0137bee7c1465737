"""Required words: lexically constrained search by dynamic beam allocation (Post & Vilar, 2018).

The candidates of a step are the best continuations of every hypothesis and, whatever their probability, the tokens that
carry on what it still has to say. They are sorted into banks by how many required tokens they still need; the places of
the beam are shared out among the banks, so that a hypothesis which has said little cannot push out one with more. A
hypothesis ends if its end gets one of the places; the places of those that go on are then shared out without the ends.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from weft.decoding.beam_state import BeamState
from weft.decoding.constraints import Progress, Rules
from weft.decoding.proposals import Proposals
from weft.text import EOS, PAD


class Candidate(NamedTuple):
    """One continuation: its sum, the hypothesis that it extends, by which token, with which log-probability."""

    sum: float
    place: int
    token: int
    log: float


def choose_required(beams: BeamState, every: Tensor) -> Proposals:
    """Log-probabilities (A·K, V) -> the continuations that each slot of the beams takes."""
    assert beams.constraints is not None
    width = beams.shape.width
    logs, tokens = every.topk(min(width + 1, every.size(1)))
    wanted = _wanted(beams)
    extra = every.gather(1, torch.tensor(wanted, dtype=torch.long, device=every.device))
    all_logs, all_tokens = torch.cat((logs, extra), 1).tolist(), tokens.tolist()
    sums, searching = beams.sums.tolist(), (beams.live & ~beams.inside).tolist()
    empty = Candidate(-torch.inf, 0, PAD, -torch.inf)
    chosen: list[list[Candidate]] = []
    ending = torch.zeros(beams.shape.slots, width, dtype=torch.bool)
    for slot, rules in enumerate(beams.constraints.rules):
        rows = range(slot * width, (slot + 1) * width)
        candidates = {
            (place, token): Candidate(sums[slot][place] + log, place, token, log)
            for place, row in enumerate(rows)
            for token, log in zip((*all_tokens[row], *wanted[row]), all_logs[row], strict=True)
        }
        possible = [one for one in candidates.values() if one.sum > -torch.inf]
        taken: list[Candidate] = []
        if rules and searching[slot]:
            progress = beams.constraints.progress[slot]
            for one in _allocate(possible, rules, progress, width):
                ending[slot, one.place] |= one.token == EOS
            taken = _allocate([one for one in possible if one.token != EOS], rules, progress, width)
        chosen.append(taken + [empty] * (width - len(taken)))
    found = torch.tensor([[(one.sum, one.log) for one in slot] for slot in chosen], dtype=every.dtype).to(every.device)
    which = torch.tensor([[(one.token, one.place) for one in slot] for slot in chosen]).to(every.device)
    end_logs = every[:, EOS].view_as(beams.sums)
    ends = (beams.sums + end_logs).masked_fill(~ending.to(every.device), -torch.inf)
    return Proposals(found[..., 0], which[..., 0], found[..., 1], which[..., 1], ends, end_logs)


def _wanted(beams: BeamState) -> list[list[int]]:
    """Of each row the tokens that carry on what is required, filled up to one size with padding, which never comes."""
    assert beams.constraints is not None
    rows: list[tuple[int, ...]] = []
    for rules, progress in zip(beams.constraints.rules, beams.constraints.progress, strict=True):
        rows += [rules.wanted(own) for own in progress] if rules else [()] * beams.shape.width
    most = max(map(len, rows))
    return [[*row, *[PAD] * (most - len(row))] for row in rows]


def _allocate(candidates: list[Candidate], rules: Rules, progress: list[Progress], width: int) -> list[Candidate]:
    """The best of each bank, as many as it has places; the likeliest of all first."""
    banks: dict[int, list[Candidate]] = {}
    for one in sorted(candidates, key=lambda one: -one.sum):
        banks.setdefault(rules.needed(rules.read(progress[one.place], one.token)), []).append(one)
    fullest_last = [banks[needed] for needed in sorted(banks, reverse=True)]
    places = share_places(width, [len(bank) for bank in fullest_last])
    taken = [one for bank, count in zip(fullest_last, places, strict=True) for one in bank[:count]]
    return sorted(taken, key=lambda one: -one.sum)


def share_places(width: int, sizes: list[int]) -> list[int]:
    """Places for each bank, the one that needs fewest tokens last: equal shares, the rest to the last, and what a bank
    cannot fill to the others in turn, from the last on."""
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
