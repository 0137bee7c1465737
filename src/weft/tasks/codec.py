"""Facts learned from the training data before a model is built: tokenizers, labels, statistics of numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from weft.data import Statistics
from weft.text import Tokenizer

UNSEEN = -1
"""The number of a label that is not in the training data: it is never right, and adds nothing to the loss."""


@dataclass(frozen=True)
class Codec:
    """Tokenizers by their role, labels, and statistics of numbers by their name: all that is learned from the training
    data before the model is built."""

    tokenizers: Mapping[str, Tokenizer]
    labels: tuple[str, ...] = ()
    statistics: Mapping[str, Statistics] = field(default_factory=dict)

    def side(self, role: str) -> Tokenizer:
        """The tokenizer of a role, or the one that serves all roles."""
        return self.tokenizers[role] if role in self.tokenizers else self.tokenizers[""]

    @cached_property
    def label_ids(self) -> dict[str, int]:
        return {label: number for number, label in enumerate(self.labels)}

    def label_id(self, label: str) -> int:
        """The number of a label; `UNSEEN` for one that is not in the training data."""
        return self.label_ids.get(label, UNSEEN)
