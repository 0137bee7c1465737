"""The contracts between the parts of a model: an encoder returns a memory; a decoder reads it, step by step.

B batch, S source length, T target length, N hypotheses; packed, all tokens of a batch lie end to end as (N,).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from weft.models.embedding import Embedding
from weft.models.pretrained import EmbeddingSetting
from weft.nn import Packing, State
from weft.nn.recurrent.lengths import last_of
from weft.nn.slots import first_of, in_slots, spread
from weft.nn.transformer.stack_cpu import TokenStack
from weft.settings import Settings, Unread


class Memory(NamedTuple):
    """`states` (B, S, D), in the order of the tokens and zero past a row's end; `lengths` (B); `final`, a tuple of the
    last states by layer.

    Packed, the states are (N, D) and `lengths` is their `Packing`.
    """

    states: Tensor
    lengths: Tensor | Packing
    final: Any

    def padded(self, size: int) -> Memory:
        """Pad each row to `size` positions."""
        return self._replace(states=pad(self.states, (0, 0, 0, size - self.states.size(1))))


class Decoded(NamedTuple):
    """One step: hidden (N, D), the next state, and the weights (N, S) of the attention if there is one."""

    hidden: Tensor
    state: State
    attention: Tensor | None


class Encoder(nn.Module):
    """Reads a whole input.

    A new encoder is a subclass with `encode` and `final_like`. The rest has defaults that work for any.
    """

    embedding: Embedding
    output_size: int

    packs: bool = False
    """Whether batches may come packed: tokens (N,) and a `Packing` in the place of lengths."""

    def forward(self, tokens: Tensor, lengths: Any) -> Memory:
        """tokens (B, S), lengths (B,) -> Memory."""
        return self.encode(self.embedding(tokens), lengths)

    def encode(self, vectors: Tensor, lengths: Any) -> Memory:
        """vectors (B, S, E), embedded already -> Memory."""
        raise NotImplementedError

    def each_layer(self) -> list[nn.Module]:
        """Its layers from the input up, for rates and unfreezing by layer; all else is below the first."""
        return []

    def reading_order(self, length: int) -> list[int]:
        """The order in which it reads the tokens of a text with so many of them, one after the other."""
        return list(range(length))

    def final_like(self) -> State:
        """An example of `Memory.final` for one row: a decoder is built by its structure and sizes."""
        raise NotImplementedError

    def last(self, tokens: Tensor, lengths: Any) -> Tensor:
        """tokens (B, S) -> (B, D), the state of each row's last token."""
        states = self(tokens, lengths).states
        if isinstance(lengths, Packing):
            states, lengths = lengths.pad(states), lengths.lengths
        return last_of(states, lengths)


class Decoder(nn.Module):
    """Writes tokens one after the other. The decoder of a language model has no memory: it is given None.

    A new decoder is a subclass with `start` and `step`. The rest has defaults that work for any; a decoder overrides
    them where it is faster otherwise. A slot is `width` rows side by side, the hypotheses of one sentence (see
    weft.nn.slots).
    """

    embedding: Embedding
    output_size: int

    packs: bool = False
    """Whether batches may come packed: tokens (N,) and a `Packing` in the place of lengths."""
    can_prefill: bool = False
    """Whether a prompt is read in one pass, by `prefill_rows` or `prefill`; if not, it is read step by step."""
    carries_state: bool = False
    """Whether `follow` continues from the state in which an earlier batch of the same text ended."""
    mixes_in_one_pass: bool = False
    """Whether scheduled sampling predicts all positions from the true tokens in one pass, and not step by step."""

    def each_layer(self) -> list[nn.Module]:
        """Its layers from the input up, for rates and unfreezing by layer; all else is below the first."""
        return []

    @property
    def longest(self) -> int | None:
        """The most tokens that it can read, if there is a limit."""
        return None

    def forward(self, tokens: Tensor, memory: Any, lengths: Any = None) -> Tensor:
        """tokens (B, T) -> hidden (B, T, D), by default in T steps; anything may stand past a row's end."""
        state, hidden = self.start(memory, torch.arange(tokens.size(0), device=tokens.device)), []
        for column in tokens.unbind(1):
            now, state, _ = self.step_without_attention(column, state)
            hidden.append(now)
        return torch.stack(hidden, dim=1)

    def start(self, memory: Any, rows: Tensor) -> State:
        """The state before the first token; hypothesis n reads sentence rows[n] of the memory."""
        raise NotImplementedError

    def step(self, tokens: Tensor, state: State) -> Decoded:
        """tokens (N) -> the numbers of the full pass, one position at a time."""
        raise NotImplementedError

    def step_without_attention(self, tokens: Tensor, state: State) -> Decoded:
        """`step` for callers that read no attention weights."""
        return self.step(tokens, state)._replace(attention=None)

    def reserve(self, memory: Any, rows: Tensor, *, width: int, capacity: int) -> State:
        """`start` in slots of fixed shape, `width` rows for each sentence of the memory, for `capacity` tokens. A
        decoder whose states do not grow needs no capacity."""
        return in_slots(self.start(memory, rows), width)

    def prefill(self, tokens: Tensor, lengths: Tensor, state: State, *, slots: Tensor, width: int) -> None:
        """Read the prompts of slots (n,) that have just begun: tokens (n, T), lengths (n,) on the CPU. The state is
        written in place."""
        spread(state, slots, self.prefill_rows(tokens, lengths, first_of(state, slots, width)), width)

    def prefill_rows(self, tokens: Tensor, lengths: Tensor, state: State) -> State:
        """tokens (N, T), lengths (N,) -> the state after them."""
        raise NotImplementedError(f"{type(self).__name__} reads prompts step by step")

    def native_reader(self, state: State, *, width: int) -> TokenStack | None:
        """The decoder for beam search in C, which runs whole steps from a reserved state; None if C cannot run it."""
        return None

    def follow(self, tokens: Tensor, state: State = None, resets: Tensor | None = None) -> tuple[Tensor, State]:
        """tokens (B, T) that continue where a state was left -> hidden (B, T, D) and the state after them. Where resets
        (B, T) is True another text begins."""
        raise NotImplementedError(f"{type(self).__name__} carries no state from one batch to the next")


class PartSettings(Settings):
    """Base of the settings of encoders and decoders: what a translator asks about a side to find settings that have no
    effect, with defaults for a new part."""

    has_export: ClassVar[bool] = False
    """Whether `weft export` can write a model of such parts."""

    def stack_settings(self) -> dict[str, Any]:
        """The settings that its weights depend on, as plain values: a model that starts from these weights has the
        same. Empty where a part cannot be the start of another."""
        return {}

    @property
    def scales_vectors(self) -> bool:
        """Whether token vectors are multiplied by the root of their size."""
        return True

    @property
    def reads_last_state_only(self) -> bool:
        """Whether a decoder with these settings reads `Memory.final` and never `Memory.states`."""
        return False

    def unread_outputs(self) -> Iterator[Unread]:
        """Settings of an encoder that only change `Memory.states`."""
        return iter(())

    def unread_without_export(self) -> Iterator[Unread]:
        """Settings that only act on an export."""
        return iter(())


class EncoderSettings(Protocol):
    """The settings of an encoder: a `PartSettings` with these."""

    has_export: ClassVar[bool]

    @property
    def vectors(self) -> EmbeddingSetting:
        """The embedding, with its default filled in."""

    @property
    def scales_vectors(self) -> bool: ...

    @property
    def dropout(self) -> float: ...

    def build_encoder(self, embedding: Any, *, extra: int = 0) -> Encoder:
        """The embedding is an `Embedding`, or another first layer with `embedding_dim`; `extra` counts features that
        join each embedded token, such as its characters."""

    def unread_outputs(self) -> Iterator[Unread]: ...

    def unread_without_export(self) -> Iterator[Unread]: ...


class DecoderSettings(Protocol):
    """The settings of a decoder: a `PartSettings` with these."""

    has_export: ClassVar[bool]

    @property
    def vectors(self) -> EmbeddingSetting:
        """The embedding, with its default filled in."""

    @property
    def scales_vectors(self) -> bool: ...

    @property
    def tie(self) -> bool: ...

    @property
    def reads_last_state_only(self) -> bool: ...

    def build_decoder(self, embedding: Embedding, encoder: Encoder | None) -> Decoder:
        """Without an encoder it is the decoder of a language model."""

    def unread_without_export(self) -> Iterator[Unread]: ...


def stacks_of(model: nn.Module) -> dict[str, Encoder | Decoder]:
    """The encoder and the decoder of a model, by their names in it."""
    return {name: part for name, part in model.named_children() if isinstance(part, Encoder | Decoder)}
