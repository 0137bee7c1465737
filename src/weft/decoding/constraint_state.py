"""The constraints of a search beside its beams: of every hypothesis how far it has come. Host logic, step by step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from weft.decoding.constraints import Progress, Ruled, Rules


class ConstraintState:
    """A slots of K hypotheses: the rules of each slot, and the progress of each place."""

    def __init__(self, slots: int, width: int) -> None:
        self.width = width
        self.rules: list[Rules | None] = [None] * slots
        self.progress: list[list[Progress]] = [[] for _ in range(slots)]

    def admit(self, slots: Tensor, sentences: Sequence[Ruled]) -> None:
        """Sentences with rules begin in those slots (n,)."""
        for slot, one in zip(slots.tolist(), sentences, strict=True):
            self.rules[slot], self.progress[slot] = one.rules, [one.start] * self.width

    def keep(self, slots: Tensor) -> None:
        """Go on with those slots alone."""
        kept = slots.tolist()
        self.rules, self.progress = [self.rules[slot] for slot in kept], [self.progress[slot] for slot in kept]

    def requires(self, device: torch.device) -> Tensor:
        """(A,) which slots have a phrase that must come."""
        return torch.tensor([bool(rules and rules.constraint.require) for rules in self.rules], device=device)

    def block(self, every: Tensor) -> None:
        """Log-probabilities (A·K, V) become -inf where a token may not come."""
        none = np.zeros(0, dtype=np.int64)
        blocked = [
            rules.blocked(progress[place]) if rules else none
            for rules, progress in zip(self.rules, self.progress, strict=True)
            for place in range(self.width)
        ]
        rows = np.repeat(np.arange(len(blocked)), [len(tokens) for tokens in blocked])
        if len(rows):
            at = torch.from_numpy(np.stack([rows, np.concatenate(blocked)])).to(every.device)
            every[at[0], at[1]] = -torch.inf

    def move(self, tokens: Tensor, places: Tensor, inside: Tensor) -> None:
        """Tokens (A, K) extend the hypotheses at those places (A, K), unless they are inside a prefix (A,)."""
        columns = zip(tokens.tolist(), places.tolist(), inside.tolist(), strict=True)
        for slot, (new, before, forced) in enumerate(columns):
            rules, old = self.rules[slot], self.progress[slot]
            if rules is not None and not forced:
                self.progress[slot] = [rules.read(old[place], token) for token, place in zip(new, before, strict=True)]
