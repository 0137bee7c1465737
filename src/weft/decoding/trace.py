"""The steps of one beam search, recorded while it runs: what was proposed, and what was kept, ended or dropped.

The plain search reports each step to its listener (`search(…, listener=…)`); without one it does no extra work. K
hypotheses of a beam, V tokens.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

from torch import Tensor

from weft.decoding.beam_state import BeamState, NextTokens
from weft.decoding.proposals import Proposals


class SearchListener(Protocol):
    """The listener of a search for one sentence. It reads the tensors and changes none of them."""

    def step(self, beams: BeamState, following: NextTokens, found: Proposals) -> None:
        """Called when continuations were chosen, before the beams are advanced."""


class Proposal(NamedTuple):
    """A token that extends the hypothesis in a place of the beam."""

    place: int
    token: int
    log_probability: float
    """That of the model."""
    sum: float
    """The sum by which the search ranks it: with penalties it is not that of the model's log-probabilities."""


class TracedStep(NamedTuple):
    """One step of a beam, or of one group of diverse beams."""

    group: int
    kept: tuple[Proposal | None, ...]
    """The new content of each place of the beam; None for an empty place."""
    ended: tuple[Proposal, ...]
    """Hypotheses that end now."""
    dropped: tuple[Proposal, ...]
    """The likeliest other proposals of each hypothesis."""


class SearchTrace:
    """A listener that keeps every step, with up to `candidates` dropped proposals of each hypothesis."""

    def __init__(self, candidates: int = 0) -> None:
        self.candidates = candidates
        self.steps: list[list[TracedStep]] = []
        """By number of the step; a step has an entry for each group that still searches."""

    def step(self, beams: BeamState, following: NextTokens, found: Proposals) -> None:
        """Keep one step, except inside a prefix, where there is nothing to choose."""
        searching = (beams.live & ~beams.inside).tolist()
        steps = [self._read(slot, beams, following, found) for slot, here in enumerate(searching) if here]
        if steps:
            self.steps.append(steps)

    def _read(self, slot: int, beams: BeamState, following: NextTokens, found: Proposals) -> TracedStep:
        """Return the step of one slot."""
        kept = _proposals(found.places[slot], found.tokens[slot], found.logs[slot], found.sums[slot])
        ends = _proposals(found.end_places[slot], found.end_tokens[slot], found.end_logs[slot], found.ends[slot])
        ended = tuple(one for one in ends if one is not None)
        if beams.shape.width == 1 and ended:  # greedy search ends with its text: no hypothesis is left
            kept = [None]
        taken = {(one.place, one.token) for one in (*kept, *ended) if one is not None}
        return TracedStep(slot, tuple(kept), ended, self._dropped(slot, beams, following, taken))

    def _dropped(
        self, slot: int, beams: BeamState, following: NextTokens, taken: set[tuple[int, int]]
    ) -> tuple[Proposal, ...]:
        """Return the likeliest proposals of each hypothesis that were not taken, the best of all first."""
        if not self.candidates:
            return ()
        width = beams.shape.width
        rows = slice(slot * width, (slot + 1) * width)
        # Of one hypothesis at most K proposals are kept, and at most K end.
        size = min(following.every.size(1), self.candidates + 2 * width)
        every, tokens = following.every[rows].topk(size)
        parts = (beams.sums[slot], tokens, every, following.model[rows].gather(1, tokens))
        dropped: list[Proposal] = []
        for place, (so_far, *columns) in enumerate(zip(*(part.tolist() for part in parts), strict=True)):
            others = [
                Proposal(place, token, log, so_far + ranked)
                for token, ranked, log in zip(*columns, strict=True)
                if (place, token) not in taken and math.isfinite(so_far + ranked)
            ]
            dropped += others[: self.candidates]
        return tuple(sorted(dropped, key=lambda one: -one.sum))


def _proposals(places: Tensor, tokens: Tensor, logs: Tensor, sums: Tensor) -> list[Proposal | None]:
    """All (K,) -> a proposal where the sum is finite."""
    rows = zip(*(part.tolist() for part in (places, tokens, logs, sums)), strict=True)
    return [Proposal(*row) if math.isfinite(row[3]) else None for row in rows]
