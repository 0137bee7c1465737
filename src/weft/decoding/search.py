"""The door to search: greedy for a beam of 1, beam search for more, sampling on request.

Sentences wait in a queue, the longest first, and take a lane each; where one ends, the next begins. At the end, when
nobody waits, lanes are given up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import torch
from torch import Tensor

from weft.decoding.captured import can_capture, most_lanes, open_captured
from weft.decoding.config import DecodeConfig
from weft.decoding.hypothesis import Hypothesis
from weft.decoding.lanes import MOST_ROWS, Lanes, open_lanes
from weft.decoding.request import Request, prepare
from weft.decoding.trail import read_lanes
from weft.models.stepper import FixedStepper, Stepper
from weft.text import MASK, PAD, SOS

NEVER: Final = (PAD, SOS, MASK)
"""Tokens that are never proposed."""

FREE: Final = 8
"""New sentences are taken in when one in so many lanes is free; lanes are given up likewise."""


@torch.inference_mode()
def search(
    model: Stepper | FixedStepper,
    memory: Any,
    count: int,
    config: DecodeConfig,
    *,
    prefixes: Sequence[Sequence[int]] | None = None,
    limits: Sequence[int] | None = None,
    forbid: Sequence[int] = NEVER,
    keys: Sequence[int] | None = None,
    attention: bool = True,
) -> list[list[Hypothesis]]:
    """The n_best hypotheses, best first, for each of `count` sentences of the memory.

    prefixes: tokens that a sentence is made to begin with; they count in neither score nor length. limits: the most
    tokens of each sentence, where config.max_length is too generous. keys: numbers that tell the sentences apart when
    sampling (their place in the file, say; by default their place in this batch). attention: whether hypotheses carry
    where the model looked. What is found for a sentence does not depend on the others. A list is shorter than n_best
    only where no more texts are possible. The model should be in evaluation mode.
    """
    if count == 0:
        return []
    request = prepare(model, count, config, prefixes=prefixes, limits=limits, forbid=forbid, keys=keys)
    found: list[list[Hypothesis]] = [[] for _ in range(count)]
    for sentence, hypotheses in Search(model, memory, request, attention=attention).run():
        found[sentence] = hypotheses
    return found


class Search:
    """One search over all sentences of a request."""

    def __init__(self, model: Stepper | FixedStepper, memory: Any, request: Request, *, attention: bool) -> None:
        self.request = request
        longest_first = request.rooms.argsort(descending=True, stable=True).tolist()
        most = request.count
        captured = not attention and can_capture(model, request)
        if isinstance(model, FixedStepper):
            rows = MOST_ROWS[request.device.type] // request.width
            most = most_lanes(request.width) if captured else max(1, rows)
        first, self.waiting = longest_first[:most], longest_first[most:]
        self.lanes: Lanes
        if captured:
            self.lanes = open_captured(model, memory, request, lanes=len(first))
            self.lanes.admit(self._tensor(list(range(len(first)))), request, self._tensor(first))
        else:
            self.lanes = open_lanes(model, memory, request, self._tensor(first), attention=attention)
        self.owners: list[int | None] = [*first, *[None] * (self.lanes.count - len(first))]
        self.rooms = request.rooms.tolist()
        self.left = [0 if owner is None else self.rooms[owner] for owner in self.owners]

    def run(self) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Each sentence with its hypotheses, as it ends."""
        try:
            while any(owner is not None for owner in self.owners):
                near = min(left for left, owner in zip(self.left, self.owners, strict=True) if owner is not None)
                turns = self.lanes.turns(near)
                self.left = [left - turns for left in self.left]
                yield from self.harvest()
                self.fill()
        finally:
            self.lanes.close()

    def harvest(self) -> Iterator[tuple[int, list[Hypothesis]]]:
        """The sentences that have ended since; their lanes are free."""
        live = self.lanes.board.live.tolist()
        done = [lane for lane, owner in enumerate(self.owners) if owner is not None and not live[lane]]
        if not done:
            return
        config = self.request.config
        found = read_lanes(self.lanes.board, self._tensor(done)).hypotheses(config.n_best, config.length_penalty)
        for lane, hypotheses in zip(done, found, strict=True):
            sentence, self.owners[lane] = self.owners[lane], None
            assert sentence is not None
            yield sentence, hypotheses

    def fill(self) -> None:
        """Give free lanes to those who wait, or up."""
        free = [lane for lane, owner in enumerate(self.owners) if owner is None]
        if not free or (self.lanes.joins and FREE * len(free) < len(self.owners)):
            return
        if self.waiting:
            lanes = free[: len(self.waiting)]
            taken, self.waiting = self.waiting[: len(lanes)], self.waiting[len(lanes) :]
            for lane, sentence in zip(lanes, taken, strict=True):
                self.owners[lane], self.left[lane] = sentence, self.rooms[sentence]
            self.lanes.admit(self._tensor(lanes), self.request, self._tensor(taken))
        elif self.lanes.shrinks:
            kept = [lane for lane, owner in enumerate(self.owners) if owner is not None]
            self.owners, self.left = [self.owners[lane] for lane in kept], [self.left[lane] for lane in kept]
            if kept:
                self.lanes.keep(self._tensor(kept))

    def _tensor(self, numbers: list[int]) -> Tensor:
        return torch.tensor(numbers, dtype=torch.long, device=self.request.device)
