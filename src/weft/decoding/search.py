"""Search for the best text of each sentence: greedy for a beam of 1, beam search for more, sampling on request.

Sentences are queued, the longest first, for free slots: one slot for a sentence, or with diverse beams one for each
group. Where a sentence ends, the next one in the queue starts. When the queue is empty, free slots are dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, NamedTuple

import torch

from weft.decoding.backtrack import Backtrack, read_slots
from weft.decoding.config import DecodeConfig
from weft.decoding.constraints import Constraint
from weft.decoding.cuda_graph import can_record, max_sentences, open_recorded
from weft.decoding.hypothesis import Hypothesis, best_first
from weft.decoding.memory import COMMON_TOKENS, check_memory, free_memory, sentence_bytes
from weft.decoding.request import Request, prepare, send
from weft.decoding.slots import MAX_ROWS, Poll, Slots, open_slots
from weft.decoding.stops import StopStrings
from weft.decoding.trace import SearchListener
from weft.errors import ConfigError
from weft.models.stepper import FixedStepper, Stepper, can_prefill, is_fixed
from weft.nn.native.packed_linear import PackedWeights
from weft.text import MASK, PAD, SOS, UNK

NEVER: Final = (PAD, SOS, MASK)
"""Tokens that are never proposed."""

NEVER_CONTINUED: Final = (*NEVER, UNK)
"""Tokens that a language model never writes: those, and the unknown token, which is no word of any text."""

MIN_FREE_SHARE: Final = 1 / 8
"""Free slots are filled, or dropped, when this share of all slots is free: doing it for each alone would cost more."""


@torch.inference_mode()
def search(
    model: Stepper | FixedStepper,
    memory: Any,
    count: int,
    config: DecodeConfig,
    *,
    prefixes: Sequence[Sequence[int]] | None = None,
    sources: Sequence[Sequence[int]] | None = None,
    limits: Sequence[int] | None = None,
    forbid: Sequence[int] = NEVER,
    keys: Sequence[int] | None = None,
    constraints: Sequence[Constraint] | None = None,
    stops: StopStrings | None = None,
    attention: bool = True,
    listener: SearchListener | None = None,
) -> list[list[Hypothesis]]:
    """The n_best hypotheses, best first, for each of `count` sentences of the memory.

    prefixes: tokens that a sentence must begin with; they count in neither score nor length. sources: tokens that a
    model without a memory reads before the start token; they are no part of a text. limits: the most tokens of each
    sentence, where that is less than config.max_length. forbid: tokens that are never written. keys: numbers that
    seed the sampling of each sentence; by default its index in this batch. constraints: phrases that each text may not
    and must contain. stops: the strings of config.stop_at, with the text of each token. attention: whether hypotheses
    hold attention weights. listener: is called at each step of the plain beam search, for one sentence. The result of a
    sentence does not depend on the others. A list is shorter than n_best only where no more texts are possible, or
    where groups have found the same ones. The model should be in evaluation mode.
    """
    if count == 0:
        return []
    if listener is not None and (count > 1 or config.sample):
        what = "sampling has no beam" if config.sample else f"{count} sentences are searched together"
        raise ConfigError(what, where="listener", cure="listen to the beam search for one sentence")
    request = prepare(
        model,
        count,
        config,
        prefixes=prefixes,
        sources=sources,
        limits=limits,
        forbid=forbid,
        keys=keys,
        constraints=constraints,
        stops=stops,
        can_prefill=can_prefill(model),
    )
    found: list[list[Hypothesis]] = [[] for _ in range(count)]
    for ended in Search(model, memory, request, attention=attention, listener=listener).run():
        for sentence, hypotheses in ended:
            found[sentence] = hypotheses
    return found


class Queued(NamedTuple):
    """A sentence in the queue: its number among all sentences of the search, and its place in its request."""

    number: int
    sentence: int
    request: Request
    memory: Any


@dataclass(slots=True)
class Running:
    """A sentence in its slots; None where they are free."""

    queued: Queued | None = None
    steps_left: int = 0
    """The most steps that the sentence still needs."""
    admitted: int = 0
    """The number of rounds before it was admitted: earlier polls do not concern it."""


Ended = list[tuple[int, list[Hypothesis]]]
"""Sentences that have ended, by their numbers."""


class Search:
    """One search over all sentences of a request, and of those that join it (`OpenSearch`)."""

    def __init__(
        self,
        model: Stepper | FixedStepper,
        memory: Any,
        request: Request,
        *,
        attention: bool,
        listener: SearchListener | None = None,
        packed: PackedWeights | None = None,
        min_free: float = MIN_FREE_SHARE,
        expected: int = 1,
    ) -> None:
        """There are slots for `expected` sentences, some of which may join later, where slots cannot become more."""
        self.min_free = min_free
        self.request, self.groups = request, request.config.groups
        self.packed, self.rounds = packed or PackedWeights(), 0
        self.polls: deque[tuple[int, Poll]] = deque()
        longest_first = sorted(range(request.count), key=lambda sentence: -request.steps[sentence])
        at_once = request.count
        recorded = not attention and listener is None and request.recordable and can_record(model, request)
        if is_fixed(model):
            rows = request.width * self.groups
            at_once = max_sentences(rows) if recorded else max(1, max_rows(request) // rows)
            at_once = self._fitting(model, memory, min(at_once, request.count), attention=attention)
        first = longest_first[:at_once]
        self.queue = deque(Queued(sentence, sentence, request, memory) for sentence in longest_first[at_once:])
        self.slots: Slots
        if recorded:
            self.slots = open_recorded(model, memory, request, self._for_each_group(first), expected=expected)
        else:
            with self.packed:
                self.slots = open_slots(model, memory, request, self._for_each_group(first), attention=attention)
        self.slots.listener = listener
        self.running = [Running() for _ in range(self.slots.count // self.groups)]
        for one, sentence in zip(self.running, first, strict=False):
            one.queued, one.steps_left = Queued(sentence, sentence, request, None), request.steps[sentence]

    def _fitting(self, model: FixedStepper, memory: Any, sentences: int, *, attention: bool) -> int:
        """The number of sentences that fit into free memory, at most `sentences`; an error where not even one does."""
        request = self.request
        if request.width * self.groups <= max_rows(request) and request.capacity <= COMMON_TOKENS:
            return sentences
        needed, free = sentence_bytes(model, memory, request, attention=attention), free_memory(request.device)
        check_memory(needed, request.config, request.device)
        return sentences if free is None else max(1, min(sentences, free // needed))

    def run(self, *, max_steps: int | None = None) -> Iterator[Ended]:
        """Yield the sentences that have ended, after each round of at most `max_steps` steps."""
        try:
            while self.active:
                yield from self.round(max_steps)
        finally:
            self.slots.close()

    @property
    def active(self) -> int:
        """The number of sentences in slots."""
        return sum(one.queued is not None for one in self.running)

    def round(self, max_steps: int | None = None) -> Iterator[Ended]:
        """Run at most `max_steps` steps; yield the sentences that have ended, then fill their slots."""
        ahead = 0 if max_steps else self.slots.polls_ahead
        # A sentence without steps left has ended, though its poll may not have been read yet.
        left = [one.steps_left for one in self.running if one.queued is not None and one.steps_left > 0]
        if left:
            with self.packed:
                steps = self.slots.steps(min(*left, max_steps) if max_steps else min(left))
            for one in self.running:
                one.steps_left -= steps
            self.rounds += 1
            self.polls.append((self.rounds, self.slots.poll()))
        if not left or len(self.polls) > ahead:
            yield self.collect(*self.polls.popleft())
            self.fill()

    def collect(self, rounds: int, poll: Poll) -> Ended:
        """The hypotheses of the sentences that had ended by a poll, made after so many rounds; their slots are free."""
        live, groups = poll.read(), self.groups
        done = [
            number
            for number, one in enumerate(self.running)
            if one.queued is not None
            and one.admitted < rounds
            and not any(live[number * groups : (number + 1) * groups])
        ]
        if not done:
            return []
        backtrack, ended = self.slots.read(self.places(done), poll), []
        for number, hypotheses in zip(done, self._gather(backtrack), strict=True):
            queued, self.running[number].queued = self.running[number].queued, None
            assert queued is not None
            ended.append((queued.number, self._rank(queued, hypotheses)))
        return ended

    def fill(self) -> None:
        """Fill free slots from the queue; drop them when it is empty."""
        free = [number for number, one in enumerate(self.running) if one.queued is None]
        if not free or (self.slots.refills and len(free) < self.min_free * len(self.running)):
            return
        if self.queue:
            self.admit(free)
        elif self.slots.shrinks:
            kept = [number for number, one in enumerate(self.running) if one.queued is not None]
            self.running = [self.running[number] for number in kept]
            if kept:
                self.slots.keep(send(self.places(kept), self.request.device))

    def admit(self, free: list[int]) -> None:
        """Begin queued sentences in these free entries of `running`, those of one request together."""
        taken = [self.queue.popleft() for _ in range(min(len(free), len(self.queue)))]
        for _, together in groupby(zip(free, taken, strict=False), key=lambda pair: id(pair[1].request)):
            numbers, queued = zip(*together, strict=True)
            request, memory = queued[0].request, queued[0].memory
            for number, one in zip(numbers, queued, strict=True):
                self.running[number] = Running(one._replace(memory=None), request.steps[one.sentence], self.rounds)
            slots = send(self.places(numbers), request.device)
            with self.packed:
                sentences = self._for_each_group([one.sentence for one in queued])
                self.slots.admit(slots, memory, request, sentences)

    def decided(self, number: int) -> tuple[int, ...]:
        """The first tokens of the text of a sentence in its slots that no later step can change."""
        slots = self.places(
            [place for place, one in enumerate(self.running) if one.queued and one.queued.number == number]
        )
        beams, here = self.slots.beams, send(slots, self.request.device)
        return common_beginning(read_slots(beams, here).open_texts(beams.live[here].cpu().numpy()))

    def _gather(self, backtrack: Backtrack) -> list[list[Hypothesis]]:
        """The hypotheses of each sentence, those of all its groups together."""
        # Where phrases are required, the best of the texts cut by the limit need not be among the likeliest.
        n_best = self.request.width if self.request.requires else self.slots.beams.shape.n_best
        config = self.request.config
        ranked = config.penalises and not config.sample
        found = backtrack.hypotheses(n_best, config.length_penalty, ranked=ranked)
        sentences = (found[first : first + self.groups] for first in range(0, len(found), self.groups))
        return [[one for slot in sentence for one in slot] for sentence in sentences]

    def _rank(self, queued: Queued, found: list[Hypothesis]) -> list[Hypothesis]:
        """The n_best of a sentence."""
        if queued.request.constraints is not None:
            compiled, _, starts = queued.request.constraints[queued.sentence]
            found = [one._replace(missing=compiled.constraint.missing(one.tokens, starts=starts)) for one in found]
        if self.groups > 1:
            found = list({(one.tokens, one.finished): one for one in found}.values())
        return best_first(found)[: self.request.config.n_best]

    def places(self, numbers: Sequence[int]) -> list[int]:
        """The slots of some entries of `running`, side by side."""
        return [number * self.groups + group for number in numbers for group in range(self.groups)]

    def _for_each_group(self, sentences: list[int]) -> list[int]:
        """Sentences, repeated for each slot that they take."""
        return [sentence for sentence in sentences for _ in range(self.groups)]


def max_rows(request: Request) -> int:
    """The most rows of a step."""
    return MAX_ROWS.get(request.device.type, MAX_ROWS["cpu"])


def common_beginning(texts: list[tuple[int, ...]]) -> tuple[int, ...]:
    """The beginning that all texts share: that which the first and the last of them in sorted order share."""
    pairs = list(zip(min(texts), max(texts), strict=False)) if texts else []
    size = next((place for place, (one, other) in enumerate(pairs) if one != other), len(pairs))
    return tuple(one for one, _ in pairs[:size])
