"""The door to search: greedy for a beam of 1, beam search for more, sampling on request.

Sentences wait in a queue, the longest first, and take a seat each: a lane, or with diverse beams one for each group.
Where one ends, the next begins. At the end, when nobody waits, seats are given up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

from weft.decoding.captured import can_capture, most_seats, open_captured
from weft.decoding.config import DecodeConfig
from weft.decoding.constraints import Constraint
from weft.decoding.hypothesis import Hypothesis, best_first
from weft.decoding.lanes import MOST_ROWS, Glance, Lanes, open_lanes
from weft.decoding.memory import COMMON_TOKENS, check_memory, free_memory, sentence_bytes
from weft.decoding.request import Request, prepare, send
from weft.decoding.trail import Reading
from weft.models.stepper import FixedStepper, Stepper, is_fixed, reads_prompts
from weft.nn.native.decode import Steady
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
    constraints: Sequence[Constraint] | None = None,
    attention: bool = True,
) -> list[list[Hypothesis]]:
    """The n_best hypotheses, best first, for each of `count` sentences of the memory.

    prefixes: tokens that a sentence is made to begin with; they count in neither score nor length. limits: the most
    tokens of each sentence, where config.max_length is too generous. forbid: tokens that never come. keys: numbers that
    tell the sentences apart when sampling; by default their place in this batch. constraints: phrases that each may not
    and must contain. attention: whether hypotheses carry where the model looked. What is found for a sentence does not
    depend on the others. A list is shorter than n_best only where no more texts are possible, or where groups have
    found the same ones. The model should be in evaluation mode.
    """
    if count == 0:
        return []
    request = prepare(
        model,
        count,
        config,
        prefixes=prefixes,
        limits=limits,
        forbid=forbid,
        keys=keys,
        constraints=constraints,
        reads=reads_prompts(model),
    )
    found: list[list[Hypothesis]] = [[] for _ in range(count)]
    for ended in Search(model, memory, request, attention=attention).run():
        for sentence, hypotheses in ended:
            found[sentence] = hypotheses
    return found


@dataclass(slots=True)
class Seat:
    """A place for one sentence, or for none."""

    sentence: int | None = None
    left: int = 0
    """The most turns that the sentence still needs."""
    joined: int = 0
    """How many rounds had been made when it sat down."""


class Search:
    """One search over all sentences of a request."""

    def __init__(self, model: Stepper | FixedStepper, memory: Any, request: Request, *, attention: bool) -> None:
        self.request, self.groups = request, request.config.groups
        self.steady, self.rounds = Steady(), 0
        longest_first = sorted(range(request.count), key=lambda sentence: -request.turns[sentence])
        most = request.count
        captured = not attention and request.recordable and can_capture(model, request)
        if is_fixed(model):
            rows = request.width * self.groups
            seats = MOST_ROWS.get(request.device.type, MOST_ROWS["cpu"]) // rows
            most = most_seats(rows) if captured else max(1, seats)
            most = self._fitting(model, memory, min(most, request.count), attention=attention)
        first, self.waiting = longest_first[:most], longest_first[most:]
        self.lanes: Lanes
        if captured:
            self.lanes = open_captured(model, memory, request, self._sentences(first))
        else:
            with self.steady:
                self.lanes = open_lanes(model, memory, request, self._sentences(first), attention=attention)
        self.seats = [Seat() for _ in range(self.lanes.count // self.groups)]
        for seat, sentence in zip(self.seats, first, strict=False):
            seat.sentence, seat.left = sentence, request.turns[sentence]

    def _fitting(self, model: FixedStepper, memory: Any, seats: int, *, attention: bool) -> int:
        """So many seats or, where memory is little, fewer; an error where there is none for a single sentence."""
        request = self.request
        rows, common = request.width * self.groups, MOST_ROWS.get(request.device.type, MOST_ROWS["cpu"])
        if rows <= common and request.room <= COMMON_TOKENS:
            return seats
        needed, free = sentence_bytes(model, memory, request, attention=attention), free_memory(request.device)
        check_memory(needed, request.config, request.device)
        return seats if free is None else max(1, min(seats, free // needed))

    def run(self, *, together: int | None = None) -> Iterator[list[tuple[int, list[Hypothesis]]]]:
        """Each time some steps have been made, at most so many together: the sentences that have ended since."""
        ahead = 0 if together else self.lanes.ahead
        glances: deque[tuple[int, Glance]] = deque()
        try:
            while any(seat.sentence is not None for seat in self.seats):
                # Who has no turns left has ended, though nobody may have looked yet.
                near = min((seat.left for seat in self.seats if seat.sentence is not None and seat.left > 0), default=0)
                if near:
                    with self.steady:
                        turns = self.lanes.turns(min(near, together or near))
                    for seat in self.seats:
                        seat.left -= turns
                    self.rounds += 1
                    glances.append((self.rounds, self.lanes.glance()))
                if not near or len(glances) > ahead:
                    yield self.harvest(*glances.popleft())
                    self.fill()
        finally:
            self.lanes.close()

    def harvest(self, rounds: int, glance: Glance) -> list[tuple[int, list[Hypothesis]]]:
        """The sentences that had ended after so many rounds; their seats are free."""
        live, each = glance.read(), self.groups
        done = [
            number
            for number, seat in enumerate(self.seats)
            if seat.sentence is not None and seat.joined < rounds and not any(live[number * each : (number + 1) * each])
        ]
        if not done:
            return []
        reading, ended = self.lanes.read(self._lanes(done), glance), []
        for number, hypotheses in zip(done, self._gather(reading), strict=True):
            sentence, self.seats[number].sentence = self.seats[number].sentence, None
            assert sentence is not None
            ended.append((sentence, self._rank(sentence, hypotheses)))
        return ended

    def fill(self) -> None:
        """Give free seats to those who wait, or up."""
        free = [number for number, seat in enumerate(self.seats) if seat.sentence is None]
        if not free or (self.lanes.joins and FREE * len(free) < len(self.seats)):
            return
        if self.waiting:
            free = free[: len(self.waiting)]
            taken, self.waiting = self.waiting[: len(free)], self.waiting[len(free) :]
            for number, sentence in zip(free, taken, strict=True):
                self.seats[number] = Seat(sentence, self.request.turns[sentence], self.rounds)
            with self.steady:
                self.lanes.admit(send(self._lanes(free), self.request.device), self.request, self._sentences(taken))
        elif self.lanes.shrinks:
            kept = [number for number, seat in enumerate(self.seats) if seat.sentence is not None]
            self.seats = [self.seats[number] for number in kept]
            if kept:
                self.lanes.keep(send(self._lanes(kept), self.request.device))

    def _gather(self, reading: Reading) -> list[list[Hypothesis]]:
        """What the lanes of each seat have found, together."""
        # Where something is required, the best of those that the limit cut need not be among the likeliest.
        most = self.request.width if self.request.requires else self.lanes.board.shape.n_best
        found = reading.hypotheses(most, self.request.config.length_penalty)
        seats = (found[first : first + self.groups] for first in range(0, len(found), self.groups))
        return [[one for lane in seat for one in lane] for seat in seats]

    def _rank(self, sentence: int, found: list[Hypothesis]) -> list[Hypothesis]:
        """The n_best of a sentence."""
        if self.request.rules is not None:
            rules, _, starts = self.request.rules[sentence]
            found = [one._replace(missing=rules.constraint.missing(one.tokens, starts=starts)) for one in found]
        if self.groups > 1:
            found = list({(one.tokens, one.finished): one for one in found}.values())
        return best_first(found)[: self.request.config.n_best]

    def _lanes(self, seats: list[int]) -> list[int]:
        """The lanes of some seats, side by side."""
        return [seat * self.groups + group for seat in seats for group in range(self.groups)]

    def _sentences(self, sentences: list[int]) -> list[int]:
        """Sentences, one for each lane."""
        return [sentence for sentence in sentences for _ in range(self.groups)]
