"""The transformer encoder, the transformer decoder with or without a memory, and their settings.

    tokens -> vectors -> + positions -> blocks -> states

The decoder reads all target positions in one pass (teacher forcing); `start` and `step` compute the same numbers one
position at a time. B batch, S source, T target, N packed positions or hypotheses, D width.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn

from weft import limits
from weft.models.embedding import Embedding, Vectors, has_table, untied
from weft.models.encoder_graph import can_record, encode_recorded
from weft.models.memory import Decoded, Decoder, Encoder, Memory
from weft.models.placed import Placed
from weft.models.transformer_settings import TransformerConfig
from weft.nn import DecoderStack, EncoderStack, Packing, State, length_mask, lookup
from weft.nn.attention.kv_cache import KVCache
from weft.nn.positions import ADDED
from weft.nn.transformer import Lengths
from weft.nn.transformer import stack_cpu as native
from weft.settings import Unread
from weft.text import EOS


class TransformerEncoderConfig(TransformerConfig):
    """A transformer that reads the whole input."""

    segments: int = Field(0, ge=0, le=limits.LAYERS)
    """Kinds of segments, each with a vector that is added to its tokens; an end token ends a segment. 0 is none."""

    def stack_settings(self) -> dict[str, Any]:
        return {**super().stack_settings(), "segments": self.segments}

    def build_encoder(self, embedding: Embedding, *, extra: int = 0) -> TransformerEncoder:
        """`extra` counts features that join each embedded token, such as its characters."""
        return TransformerEncoder(self, embedding, extra=extra)


class TransformerDecoderConfig(TransformerConfig):
    """A transformer that writes from left to right, looking at a memory where there is one."""

    tie: bool = Field(default_factory=has_table)
    """Score the next token with the table of embeddings; one-hot vectors have none."""

    def unread(self) -> Iterator[Unread]:
        yield from super().unread()
        yield from untied(self.embedding)

    def build_decoder(self, embedding: Embedding, encoder: Encoder | None = None) -> TransformerDecoder:
        """Without an encoder it is the decoder of a language model."""
        return TransformerDecoder(self, embedding, memory_size=encoder.output_size if encoder else None)


class TransformerEncoder(Encoder):
    """Tokens -> embeddings with positions -> blocks -> `Memory`, whose `final` is the mean of each row's states."""

    def __init__(self, config: TransformerEncoderConfig, embedding: Embedding, *, extra: int = 0) -> None:
        super().__init__()
        self.embedding = embedding
        self.placed = Placed(config, embedding.embedding_dim + extra)
        self.stack = EncoderStack(config.width, layers=config.layers, **config.block_options())
        self.output_size = config.width
        size = embedding.embedding_dim + extra
        self.segments = nn.Embedding(config.segments, size) if config.segments else None
        if self.segments is not None:
            nn.init.normal_(self.segments.weight, std=0.02)
        self.packs = not config.attention_hard and self.segments is None

    def forward(self, tokens: Tensor, lengths: Tensor | Packing) -> Memory:
        """tokens (B, S), lengths (B) -> Memory; or packed, tokens (N) and their `Packing`."""
        if isinstance(lengths, Tensor) and can_record(self, tokens):
            return encode_recorded(self, self._read, tokens, lengths)
        return self._read(tokens, lengths)

    def _read(self, tokens: Tensor, lengths: Tensor | Packing) -> Memory:
        vectors = self.embedding(tokens)
        if self.segments is None or tokens.is_floating_point():
            return self.encode(vectors, lengths)
        return self._encode(vectors + self._segments(tokens), lengths)

    def _segments(self, tokens: Tensor) -> Tensor:
        """tokens (B, S) -> the vectors of their segments (B, S, E); those after the last kind are of the last kind."""
        assert self.segments is not None
        ends = tokens == EOS
        ended = ends.cumsum(1) - ends.long()
        return self.segments(ended.clamp(max=self.segments.num_embeddings - 1))  # type: ignore[no-any-return]

    def encode(self, vectors: Tensor, lengths: Tensor | Packing) -> Memory:
        """vectors (B, S, E), embedded already -> Memory. All of it is one segment."""
        return self._encode(vectors if self.segments is None else vectors + self.segments.weight[0], lengths)

    def _encode(self, vectors: Tensor, lengths: Tensor | Packing) -> Memory:
        states = self.stack(self.placed.all(vectors, lengths), lengths)
        if isinstance(lengths, Packing):
            return Memory(states, lengths, None)
        states = states.masked_fill(~length_mask(lengths, states.size(1))[..., None], 0)
        mean = states.sum(1) / lengths.clamp(min=1)[:, None]
        return Memory(states, lengths, (mean,))

    def each_layer(self) -> list[nn.Module]:
        return stacked(self.stack)

    def final_like(self) -> State:
        """A `Memory.final` of one row."""
        return (torch.empty(1, self.output_size),)


class Written(NamedTuple):
    """The state of a decoder: the length of each hypothesis (N,), None if a KV cache has it, and that of the layers."""

    length: Tensor | None
    layers: State


class Added(NamedTuple):
    """table[token] · scale + vectors[position]; without vectors there is no second term."""

    table: Tensor
    scale: float
    vectors: Tensor | None


class TransformerDecoder(Decoder):
    """Target tokens, and a memory if it was built for one -> hidden states of each position."""

    can_prefill = True
    mixes_in_one_pass = True

    def __init__(self, config: TransformerConfig, embedding: Embedding, *, memory_size: int | None = None) -> None:
        super().__init__()
        self.embedding = embedding
        self.placed = Placed(config, embedding.embedding_dim)
        options = config.block_options()
        self.stack: EncoderStack | DecoderStack
        if memory_size is None:
            self.stack = EncoderStack(config.width, layers=config.layers, **options)
        else:
            self.stack = DecoderStack(config.width, layers=config.layers, memory_size=memory_size, **options)
        self.output_size = config.width
        self.packs = not config.attention_hard

    def forward(self, tokens: Tensor, memory: Memory | None, lengths: Lengths = None) -> Tensor:
        """tokens (B, T) -> hidden (B, T, D); or packed, tokens (N), a `Packing` and a packed memory -> (N, D)."""
        x = self.placed.all(self.embedding(tokens), lengths)
        packing = lengths if isinstance(lengths, Packing) else None
        if isinstance(self.stack, EncoderStack):
            return self.stack(x, packing, causal=True)  # type: ignore[no-any-return]
        assert memory is not None
        return self.stack(x, memory.states, memory.lengths, packing)  # type: ignore[no-any-return]

    def start(self, memory: Memory | None, rows: Tensor) -> Written:
        """The state before the first token; hypothesis n belongs to sentence rows[n] of the memory."""
        length = torch.zeros_like(rows)
        if isinstance(self.stack, EncoderStack):
            return Written(length, self.stack.start(rows.numel(), next(self.parameters())))
        assert memory is not None
        assert isinstance(memory.lengths, Tensor)
        return Written(length, self.stack.start(memory.states, memory.lengths, rows))

    def reserve(self, memory: Memory | None, rows: Tensor, *, width: int, capacity: int) -> Written:
        """The state before the first token, with a KV cache for `capacity` tokens in slots of `width` rows."""
        self.placed.reach(max(1, capacity))
        if isinstance(self.stack, EncoderStack):
            like = next(self.parameters())
            return Written(None, self.stack.reserve(rows.numel(), like, slot_width=width, capacity=capacity))
        assert memory is not None
        assert isinstance(memory.lengths, Tensor)
        return Written(None, self.stack.reserve(memory.states, memory.lengths, slot_width=width, capacity=capacity))

    def step(self, tokens: Tensor, state: Written) -> Decoded:
        """tokens (N) -> hidden (N, D) of the position after each, and the last layer's attention."""
        return self._step(tokens, state, attention=True)

    def step_without_attention(self, tokens: Tensor, state: Written) -> Decoded:
        return self._step(tokens, state, attention=False)

    def _step(self, tokens: Tensor, state: Written, *, attention: bool) -> Decoded:
        weights: Tensor | None = None
        layers: State
        seen = self._seen(state)
        if state.length is None:
            x = self._next(tokens, seen.length)
        else:
            x = self.placed(self.embedding(tokens), state.length, seen[0].keys.size(2) + 1)
        if isinstance(self.stack, EncoderStack):
            hidden, layers = self.stack.step(x, state.layers)
        else:
            hidden, layers, weights = self.stack.step(x, state.layers, attention=attention)
        return Decoded(hidden, Written(None if state.length is None else state.length + 1, layers), weights)

    def prefill(self, tokens: Tensor, lengths: Tensor, state: Written, *, slots: Tensor, width: int) -> None:
        x = self.placed.all(self.embedding(tokens), None)
        self.stack.prefill(x, lengths, state.layers, slots=slots, slot_width=width)

    def native_reader(self, state: Written, *, width: int) -> native.TokenStack | None:
        seen, added = self._seen(state), self._added()
        if added is None or not isinstance(seen, KVCache) or not native.steps(self.stack, added.table):
            return None
        source = None if isinstance(self.stack, EncoderStack) else state.layers.source.value
        prepared = native.prepare(self.stack, seen, slot_width=width, source=source)
        return native.TokenStack(prepared, added.table, added.vectors, added.scale)

    def _next(self, tokens: Tensor, places: Tensor) -> Tensor:
        """tokens (N) at positions (N) that `reach` has prepared -> (N, D)."""
        added = self._added()
        if added is not None and lookup.serves(added.table):
            return lookup.look_up(tokens, added.table, added.scale, places, added.vectors)
        return self.placed.next(self.embedding(tokens), places)

    def _added(self) -> Added | None:
        """The tables to add up, where the input of the blocks is the token's vector plus one of its position."""
        positions = self.placed.positions
        if not isinstance(self.embedding, Vectors) or not isinstance(positions, ADDED):
            return None
        if self.placed.widen is not None or self.placed.norm is not None:
            return None
        return Added(self.embedding.weight, self.embedding.scale, positions.vectors)

    def _seen(self, state: Written) -> Any:
        return state.layers if isinstance(self.stack, EncoderStack) else state.layers.cache

    def each_layer(self) -> list[nn.Module]:
        return stacked(self.stack)

    @property
    def longest(self) -> int | None:
        """The most tokens that it can read, if there is a limit."""
        return self.placed.longest


def stacked(stack: EncoderStack | DecoderStack) -> list[nn.Module]:
    """The blocks of a stack from the input up; the norm at its end belongs to the last."""
    *below, last = stack.blocks
    return [*below, nn.ModuleList([last, stack.final])]
