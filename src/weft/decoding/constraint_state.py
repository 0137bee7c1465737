"""The constraints of a search beside its beams: the progress of every hypothesis. It runs on the host at every step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from weft.decoding.constraints import CompiledConstraint, Progress, SentenceConstraint


class ConstraintState:
    """A slots of K hypotheses: the constraint of each slot, and the progress of each hypothesis."""

    def __init__(self, slots: int, width: int) -> None:
        self.width = width
        self.compiled: list[CompiledConstraint | None] = [None] * slots
        self.progress: list[list[Progress]] = [[] for _ in range(slots)]

    def admit(self, slots: Tensor, sentences: Sequence[SentenceConstraint]) -> None:
        """Start sentences with these constraints in those slots (n,)."""
        for slot, one in zip(slots.tolist(), sentences, strict=True):
            self.compiled[slot], self.progress[slot] = one.compiled, [one.start] * self.width

    def keep(self, slots: Tensor) -> None:
        """Drop all slots but those."""
        kept = slots.tolist()
        self.compiled = [self.compiled[slot] for slot in kept]
        self.progress = [self.progress[slot] for slot in kept]

    def resized(self, slots: int, kept: Tensor) -> ConstraintState:
        """The constraints of so many slots, the first of which are those `kept`."""
        found = ConstraintState(slots, self.width)
        for place, slot in enumerate(kept.tolist()):
            found.compiled[place], found.progress[place] = self.compiled[slot], self.progress[slot]
        return found

    def requires(self, device: torch.device) -> Tensor:
        """(A,) whether a slot has a required phrase."""
        return torch.tensor([bool(one and one.constraint.require) for one in self.compiled], device=device)

    def met(self, device: torch.device) -> Tensor:
        """(A·K,) whether a hypothesis has all required phrases."""
        found = [
            compiled is None or len(progress[place].met) == len(compiled.constraint.require)
            for compiled, progress in zip(self.compiled, self.progress, strict=True)
            for place in range(self.width)
        ]
        return torch.tensor(found, device=device)

    def block(self, every: Tensor) -> None:
        """Set log-probabilities (A·K, V) to -inf where a constraint forbids the token."""
        none = np.zeros(0, dtype=np.int64)
        blocked = [
            compiled.blocked(progress[place]) if compiled else none
            for compiled, progress in zip(self.compiled, self.progress, strict=True)
            for place in range(self.width)
        ]
        rows = np.repeat(np.arange(len(blocked)), [len(tokens) for tokens in blocked])
        if len(rows):
            at = torch.from_numpy(np.stack([rows, np.concatenate(blocked)])).to(every.device)
            every[at[0], at[1]] = -torch.inf

    def move(self, tokens: Tensor, places: Tensor, inside: Tensor) -> None:
        """Advance the progress by tokens (A, K) that extend those places (A, K), except inside a prefix (A,)."""
        columns = zip(tokens.tolist(), places.tolist(), inside.tolist(), strict=True)
        for slot, (new, before, forced) in enumerate(columns):
            compiled, old = self.compiled[slot], self.progress[slot]
            if compiled is not None and not forced:
                pairs = zip(new, before, strict=True)
                self.progress[slot] = [compiled.read(old[place], token) for token, place in pairs]
