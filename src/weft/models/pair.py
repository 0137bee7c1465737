"""The contract of a model of pairs, which reads a source and writes a target: all that translate uses of a model."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor

from weft.models.stepper import Writer
from weft.nn import Packing


class SourceRead(NamedTuple):
    """The start of a search: the memory of the sources, or the tokens that the writer reads before each target."""

    memory: Any
    prompts: list[list[int]] | None = None


class PairModel(Writer):
    """source -> hidden states of the target -> logits of its next token."""

    has_encoder: bool = True
    """Whether a part of its own reads the source, and not the one that writes the target."""

    @property
    def packs(self) -> bool:
        """Whether it takes packed batches."""
        raise NotImplementedError

    def source_states(self, source: Tensor, lengths: Tensor) -> Tensor:
        """source (B, S), lengths (B) -> the states of the network at the source's tokens (B, S, D)."""
        raise NotImplementedError

    def read(self, source: Tensor, lengths: Tensor) -> SourceRead:
        """source (B, S), lengths (B) -> the start of a search for its targets."""
        raise NotImplementedError

    def forward(
        self,
        source: Tensor,
        source_lengths: Tensor | Packing,
        target: Tensor,
        target_lengths: Tensor | Packing | None = None,
        *,
        truth: float = 1.0,
    ) -> Tensor:
        """Teacher forcing: source (B, S), target (B, T) that starts with the start token -> hidden (B, T, D).

        Packed, source and target are (N) and (M), each with its `Packing`, and hidden is (M, D). A target token is
        read as it is with probability `truth`, and else replaced by the model's own prediction.
        """
        raise NotImplementedError
