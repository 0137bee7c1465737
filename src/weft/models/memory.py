"""What the parts of a model promise each other: an encoder gives a memory, a decoder reads it and writes hidden states.

B batch, S source length, T target length, N hypotheses; packed, all tokens of a batch lie end to end as (N,).
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from torch import Tensor
from torch.nn.functional import pad

from weft.models.embedding import Embedding, EmbeddingSetting
from weft.nn import Packing, State


class Memory(NamedTuple):
    """`states` (B, S, D), one per token in the order of the tokens, whatever the order in which they were read, and
    zero past a row's end; `lengths` (B); `final`, a tuple of states by layer.

    Packed, the states are (N, D) and `lengths` says how they lie.
    """

    states: Tensor
    lengths: Tensor | Packing
    final: Any

    def padded(self, size: int) -> Memory:
        """With room for `size` positions in each row."""
        return self._replace(states=pad(self.states, (0, 0, 0, size - self.states.size(1))))


class Decoded(NamedTuple):
    """One step: hidden (N, D), the next state, and the weights (N, S) of the attention if there is one."""

    hidden: Tensor
    state: State
    attention: Tensor | None


class Encoder(Protocol):
    """Reads a whole input. `lengths` are (B,); where the encoder packs they may be a `Packing`, and tokens (N,)."""

    embedding: Embedding
    output_size: int

    def __call__(self, tokens: Tensor, lengths: Any) -> Memory:
        """tokens (B, S) -> Memory."""

    def encode(self, vectors: Tensor, lengths: Any) -> Memory:
        """vectors (B, S, E), embedded already -> Memory."""

    def last(self, tokens: Tensor, lengths: Any) -> Tensor:
        """tokens (B, S) -> (B, D), the state in which the reading of each row ends; of two directions, of each."""

    def final_like(self) -> State:
        """A `final` of one row, to know its structure and sizes by."""


class Decoder(Protocol):
    """Writes tokens one after the other. That of a language model has no memory to read: None stands in its place."""

    embedding: Embedding
    output_size: int

    def __call__(self, tokens: Tensor, memory: Any, lengths: Tensor | Packing | None = None) -> Tensor:
        """All positions at once: tokens (B, T) -> hidden (B, T, D), whatever stands past a row's end."""

    def start(self, memory: Any, rows: Tensor) -> State:
        """The state before the first token; hypothesis n reads sentence rows[n] of the memory."""

    def step(self, tokens: Tensor, state: State) -> Decoded:
        """tokens (N) -> the numbers of the full pass, one position at a time."""


class EncoderSettings(Protocol):
    """What a config file says of an encoder."""

    @property
    def vectors(self) -> EmbeddingSetting:
        """The embedding, decided."""

    @property
    def dropout(self) -> float: ...

    def build_encoder(self, embedding: Embedding, *, extra: int = 0) -> Encoder:
        """`extra` counts features that join each embedded token, such as its characters."""


class DecoderSettings(Protocol):
    """What a config file says of a decoder."""

    @property
    def vectors(self) -> EmbeddingSetting:
        """The embedding, decided."""

    @property
    def tie(self) -> bool: ...

    def build_decoder(self, embedding: Embedding, encoder: Encoder | None) -> Decoder:
        """Without an encoder it is the decoder of a language model."""
