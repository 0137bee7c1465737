"""The door to search: greedy for a beam of 1, beam search for more, sampling on request.

Sentences wait in a queue, the longest first, and take a place each: a slot, or with diverse beams one for each group.
Where one ends, the next begins. At the end, when nobody waits, places are given up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

from weft.decoding.backtrack import Backtrack
from weft.decoding.config import DecodeConfig
from weft.decoding.constraints import Constraint
from weft.decoding.cuda_graph import can_record, most_sentences, open_recorded
from weft.decoding.hypothesis import Hypothesis, best_first
from weft.decoding.memory import COMMON_TOKENS, check_memory, free_memory, sentence_bytes
from weft.decoding.request import Request, prepare, send
from weft.decoding.slots import MOST_ROWS, Poll, Slots, open_slots
from weft.models.stepper import FixedStepper, Stepper, can_prefill, is_fixed
from weft.nn.native.packed_linear import PackedWeights
from weft.text import MASK, PAD, SOS

NEVER: Final = (PAD, SOS, MASK)
"""Tokens that are never proposed."""

FREE: Final = 8
"""New sentences are taken in when one in so many slots is free; slots are given up likewise."""


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
        can_prefill=can_prefill(model),
    )
    found: list[list[Hypothesis]] = [[] for _ in range(count)]
    for ended in Search(model, memory, request, attention=attention).run():
        for sentence, hypotheses in ended:
            found[sentence] = hypotheses
    return found


@dataclass(slots=True)
class Running:
    """A place for one sentence, or for none."""

    sentence: int | None = None
    left: int = 0
    """The most steps that the sentence still needs."""
    joined: int = 0
    """How many rounds had been made when it sat down."""


class Search:
    """One search over all sentences of a request."""

    def __init__(self, model: Stepper | FixedStepper, memory: Any, request: Request, *, attention: bool) -> None:
        self.request, self.groups = request, request.config.groups
        self.packed, self.rounds = PackedWeights(), 0
        longest_first = sorted(range(request.count), key=lambda sentence: -request.steps[sentence])
        most = request.count
        recorded = not attention and request.recordable and can_record(model, request)
        if is_fixed(model):
            rows = request.width * self.groups
            places = MOST_ROWS.get(request.device.type, MOST_ROWS["cpu"]) // rows
            most = most_sentences(rows) if recorded else max(1, places)
            most = self._fitting(model, memory, min(most, request.count), attention=attention)
        first, self.queue = longest_first[:most], longest_first[most:]
        self.slots: Slots
        if recorded:
            self.slots = open_recorded(model, memory, request, self._sentences(first))
        else:
            with self.packed:
                self.slots = open_slots(model, memory, request, self._sentences(first), attention=attention)
        self.running = [Running() for _ in range(self.slots.count // self.groups)]
        for one, sentence in zip(self.running, first, strict=False):
            one.sentence, one.left = sentence, request.steps[sentence]

    def _fitting(self, model: FixedStepper, memory: Any, places: int, *, attention: bool) -> int:
        """So many places or, where memory is little, fewer; an error where there is none for a single sentence."""
        request = self.request
        rows, common = request.width * self.groups, MOST_ROWS.get(request.device.type, MOST_ROWS["cpu"])
        if rows <= common and request.room <= COMMON_TOKENS:
            return places
        needed, free = sentence_bytes(model, memory, request, attention=attention), free_memory(request.device)
        check_memory(needed, request.config, request.device)
        return places if free is None else max(1, min(places, free // needed))

    def run(self, *, together: int | None = None) -> Iterator[list[tuple[int, list[Hypothesis]]]]:
        """Each time some steps have been made, at most so many together: the sentences that have ended since."""
        ahead = 0 if together else self.slots.ahead
        polls: deque[tuple[int, Poll]] = deque()
        try:
            while any(one.sentence is not None for one in self.running):
                # Who has no steps left has ended, though nobody may have looked yet.
                near = min((one.left for one in self.running if one.sentence is not None and one.left > 0), default=0)
                if near:
                    with self.packed:
                        steps = self.slots.steps(min(near, together or near))
                    for one in self.running:
                        one.left -= steps
                    self.rounds += 1
                    polls.append((self.rounds, self.slots.poll()))
                if not near or len(polls) > ahead:
                    yield self.collect(*polls.popleft())
                    self.fill()
        finally:
            self.slots.close()

    def collect(self, rounds: int, poll: Poll) -> list[tuple[int, list[Hypothesis]]]:
        """The sentences that had ended after so many rounds; their places are free."""
        live, each = poll.read(), self.groups
        done = [
            number
            for number, one in enumerate(self.running)
            if one.sentence is not None and one.joined < rounds and not any(live[number * each : (number + 1) * each])
        ]
        if not done:
            return []
        reading, ended = self.slots.read(self._slots(done), poll), []
        for number, hypotheses in zip(done, self._gather(reading), strict=True):
            sentence, self.running[number].sentence = self.running[number].sentence, None
            assert sentence is not None
            ended.append((sentence, self._rank(sentence, hypotheses)))
        return ended

    def fill(self) -> None:
        """Give free places to those who wait, or up."""
        free = [number for number, one in enumerate(self.running) if one.sentence is None]
        if not free or (self.slots.joins and FREE * len(free) < len(self.running)):
            return
        if self.queue:
            free = free[: len(self.queue)]
            taken, self.queue = self.queue[: len(free)], self.queue[len(free) :]
            for number, sentence in zip(free, taken, strict=True):
                self.running[number] = Running(sentence, self.request.steps[sentence], self.rounds)
            with self.packed:
                self.slots.admit(send(self._slots(free), self.request.device), self.request, self._sentences(taken))
        elif self.slots.shrinks:
            kept = [number for number, one in enumerate(self.running) if one.sentence is not None]
            self.running = [self.running[number] for number in kept]
            if kept:
                self.slots.keep(send(self._slots(kept), self.request.device))

    def _gather(self, reading: Backtrack) -> list[list[Hypothesis]]:
        """What the slots of each place have found, together."""
        # Where something is required, the best of those that the limit cut need not be among the likeliest.
        most = self.request.width if self.request.requires else self.slots.beams.shape.n_best
        found = reading.hypotheses(most, self.request.config.length_penalty)
        places = (found[first : first + self.groups] for first in range(0, len(found), self.groups))
        return [[one for slot in place for one in slot] for place in places]

    def _rank(self, sentence: int, found: list[Hypothesis]) -> list[Hypothesis]:
        """The n_best of a sentence."""
        if self.request.rules is not None:
            rules, _, starts = self.request.rules[sentence]
            found = [one._replace(missing=rules.constraint.missing(one.tokens, starts=starts)) for one in found]
        if self.groups > 1:
            found = list({(one.tokens, one.finished): one for one in found}.values())
        return best_first(found)[: self.request.config.n_best]

    def _slots(self, places: list[int]) -> list[int]:
        """The slots of some places, side by side."""
        return [place * self.groups + group for place in places for group in range(self.groups)]

    def _sentences(self, sentences: list[int]) -> list[int]:
        """Sentences, one for each slot."""
        return [sentence for sentence in sentences for _ in range(self.groups)]
