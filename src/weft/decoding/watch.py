"""The constraints of a search beside its board: of every hypothesis how far it has come. Host logic, step by step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from weft.decoding.constraints import Progress, Ruled, Rules


class Watch:
    """A lanes of K hypotheses: the rules of each lane, and the progress of each place."""

    def __init__(self, lanes: int, width: int) -> None:
        self.width = width
        self.rules: list[Rules | None] = [None] * lanes
        self.progress: list[list[Progress]] = [[] for _ in range(lanes)]

    def admit(self, lanes: Tensor, sentences: Sequence[Ruled]) -> None:
        """Sentences with rules begin in those lanes (n,)."""
        for lane, one in zip(lanes.tolist(), sentences, strict=True):
            self.rules[lane], self.progress[lane] = one.rules, [one.start] * self.width

    def keep(self, lanes: Tensor) -> None:
        """Go on with those lanes alone."""
        kept = lanes.tolist()
        self.rules, self.progress = [self.rules[lane] for lane in kept], [self.progress[lane] for lane in kept]

    def requires(self, device: torch.device) -> Tensor:
        """(A,) which lanes have a phrase that must come."""
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
        for lane, (new, before, forced) in enumerate(columns):
            rules, old = self.rules[lane], self.progress[lane]
            if rules is not None and not forced:
                self.progress[lane] = [rules.read(old[place], token) for token, place in zip(new, before, strict=True)]
