"""Penalties for tokens that a text has already: they change the logits z of the next token.

    z ← z / ρ  where z > 0, else z · ρ    for each token of the prompt or of the text so far   ρ = repetition_penalty
    z ← z - φ · (times that the text has the token)                                            φ = frequency_penalty
    z ← z - π  if the text has the token                                                       π = presence_penalty

The first is that of CTRL (Keskar et al., 2019), the others are those of OpenAI's interface, which do not count the
prompt. The search maximises log softmax of the changed z. A slots, K hypotheses of each, V tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from weft.decoding.config import DecodeConfig


def penalise(logits: Tensor, written: Tensor, read: Tensor, config: DecodeConfig) -> Tensor:
    """logits, times that each token was written, and whether the prompt has it, of one shape (…, V) -> new logits."""
    if config.repetition_penalty != 1.0:
        changed = torch.where(logits > 0, logits / config.repetition_penalty, logits * config.repetition_penalty)
        logits = torch.where(read | (written > 0), changed, logits)
    if config.frequency_penalty:
        logits = logits - config.frequency_penalty * written.to(logits.dtype)
    if config.presence_penalty:
        logits = logits - config.presence_penalty * (written > 0)
    return logits


class WrittenTokens:
    """The tokens that each hypothesis of A slots has written, and those of the prompt of each slot."""

    def __init__(self, slots: int, width: int) -> None:
        self.width = width
        self.written: Tensor | None = None
        """(A, K, V) in int32, from the first step on: before it the size of the vocabulary is not known."""
        self.read: Tensor | None = None
        """(A, V)"""
        self._new: dict[int, Sequence[int]] = dict.fromkeys(range(slots), ())
        """Slots that have started and not made a step, with their prompts."""
        self._slots = slots

    def admit(self, slots: Tensor, prompts: Sequence[Sequence[int]]) -> None:
        """Start sentences with these prompts in those slots (n,)."""
        self._new |= zip(slots.tolist(), prompts, strict=True)

    def keep(self, slots: Tensor) -> None:
        """Drop all slots but those."""
        kept = slots.tolist()
        self._new = {place: self._new[slot] for place, slot in enumerate(kept) if slot in self._new}
        self._slots = len(kept)
        if self.written is not None and self.read is not None:
            self.written, self.read = self.written[slots], self.read[slots]

    def resized(self, slots: int, kept: Tensor) -> WrittenTokens:
        """The tokens of so many slots, the first of which are those `kept`."""
        found, places = WrittenTokens(slots, self.width), kept.tolist()
        begun = {place: slot for place, slot in enumerate(places) if slot not in self._new}
        found._new |= {place: self._new[slot] for place, slot in enumerate(places) if place not in begun}
        found._new = {place: prompt for place, prompt in found._new.items() if place not in begun}
        if self.written is not None and self.read is not None:
            found.written = self.written.new_zeros(slots, *self.written.shape[1:])
            found.read = self.read.new_zeros(slots, self.read.size(1))
            found.written[: len(places)], found.read[: len(places)] = self.written[kept], self.read[kept]
        return found

    def penalise(self, logits: Tensor, config: DecodeConfig) -> Tensor:
        """logits (A·K, V) -> the penalised ones."""
        self._begin(logits)
        assert self.written is not None
        assert self.read is not None
        shaped = logits.view(self._slots, self.width, -1)
        return penalise(shaped, self.written, self.read[:, None], config).view_as(logits)

    def _begin(self, logits: Tensor) -> None:
        """Clear the slots that have started."""
        if self.written is None or self.read is None:
            shape, device = (self._slots, self.width, logits.size(1)), logits.device
            self.written = torch.zeros(shape, dtype=torch.int32, device=device)
            self.read = torch.zeros((shape[0], shape[2]), dtype=torch.bool, device=device)
        if not self._new:
            return
        slots = torch.tensor(list(self._new), device=logits.device)
        self.written[slots] = 0
        self.read[slots] = False
        pairs = [(slot, token) for slot, prompt in self._new.items() for token in set(prompt)]
        if pairs:
            rows, tokens = torch.tensor(pairs, device=logits.device).T
            self.read[rows, tokens] = True
        self._new = {}

    def move(self, tokens: Tensor, places: Tensor, inside: Tensor) -> None:
        """Add tokens (A, K) that extend those places (A, K), except inside a prefix (A,)."""
        if self.written is None:
            return
        if self.width > 1:
            self.written = self.written.gather(1, places[..., None].expand_as(self.written))
        one = (~inside).to(self.written.dtype)[:, None, None].expand(*tokens.shape, 1)
        self.written.scatter_add_(2, tokens[..., None], one.contiguous())
