"""Recurrent decoders: four ways in which the source reaches the target.

first      s_t = f(s_{t-1}, y_{t-1})            the source is the first state only
every      s_t = f(s_{t-1}, [y_{t-1}; c])       its summary c also joins every input and every output
attention  s_t = f(s_{t-1}, [y_{t-1}; u_t])     u_t = attend(s_{t-1}, source): inside the recurrence
after      s_t = f(s_{t-1}, y_{t-1})            a_t = attend(s_t, source): after it, so that it runs at full speed

The last two have the output r_t = tanh(W [a_t; s_t]).          B batch, S source length, T target length, N hypotheses
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from pydantic import Field, field_validator
from torch import Tensor, nn

from weft.models.bridge import Bridge, BridgeKind
from weft.models.embedding import Embedding, has_table, untied
from weft.models.memory import Decoded, Decoder, Encoder, Memory
from weft.models.recurrent import RecurrentConfig
from weft.nn import SCORES, AttendingCell, Shared, Source, TimeDropout, attend, leaves_of, length_mask, select_rows
from weft.nn.attention.recording import AttendsTo, recording
from weft.nn.attention.scores import scale_of
from weft.nn.linear import Linear
from weft.nn.recurrent.layer import Layer
from weft.settings import Positive, Unread, known


class RecurrentDecoderConfig(RecurrentConfig):
    """A recurrent decoder."""

    context: Literal["first", "every", "attention", "after"] = "after"
    """How the source reaches the target: first, every, attention (inside the recurrence) or after (beside it)."""
    attention: str = "bilinear"
    """The score of the attention."""
    attention_scale: Literal["auto", "none", "sqrt_d", "sqrt_max"] | Positive = "auto"
    """The factor of its scores: none, sqrt_d, sqrt_max or a number; auto is 1/√d for products of learned maps."""
    attention_hard: bool = False
    """Take the best state of the source alone, and not a mean of all."""
    bridge: BridgeKind = "learned"
    """How the decoder's first state is made from the encoder's last."""
    tie: bool = Field(default_factory=has_table)
    """Score the next token with the table of embeddings; one-hot vectors have none."""

    @field_validator("attention")
    @classmethod
    def _known_score(cls, score: str) -> str:
        return known(score, SCORES)

    def unread(self) -> Iterator[Unread]:
        yield from super().unread()
        yield from untied(self.embedding)
        if self.reads_last_state_only:
            why = f'scores nothing: context = "{self.context}" has no attention'
            for name in ("attention", "attention_scale", "attention_hard"):
                yield Unread(name, why, 'remove it, or set context = "after" or "attention"')
        if self.bridge != "none":
            why = f'is never used: bridge = "{self.bridge}" makes the first state from the source'
            yield Unread("initial", why, 'remove it, or set bridge = "none"')
        elif self.context == "first":
            why = 'hides the source: with context = "first" the decoder reads it by the bridge alone'
            yield Unread("bridge", why, 'use bridge = "learned", or another context')

    @property
    def reads_last_state_only(self) -> bool:
        return self.context in ("first", "every")

    @property
    def input_size(self) -> int | None:
        return super().input_size if self.context in ("first", "after") else None

    def build_decoder(self, embedding: Embedding, encoder: Encoder | None) -> Decoder:
        assert encoder is not None, "a language model has RecurrentLanguageConfig"
        return CONTEXTS[self.context](self, embedding, encoder)


class PlainDecoder(Decoder):
    """No attention: the source is the first state and, with `every`, its summary is an input of every step too."""

    can_prefill = True

    def __init__(self, config: RecurrentDecoderConfig, embedding: Embedding, encoder: Encoder) -> None:
        super().__init__()
        self.every = config.context == "every"
        self.embedding = embedding
        self.dropout = TimeDropout(config.dropout)
        extra = summary_size(encoder) if self.every else 0
        self.rnn = config.build_rnn(embedding.embedding_dim + extra)
        self.bridge = Bridge(config.bridge, encoder, self.rnn)
        self.output_size = self.rnn.output_size + extra

    def summary(self, memory: Memory) -> Tensor:
        """(B, D); no columns unless the summary is an input of every step."""
        top = torch.cat(leaves_of(memory.final[-1]), dim=-1)
        return top if self.every else top[:, :0]

    def forward(self, tokens: Tensor, memory: Memory, lengths: Tensor | None = None) -> Tensor:
        """tokens (B, T) -> hidden (B, T, D)."""
        summary = self.summary(memory)[:, None].expand(-1, tokens.size(1), -1)
        inputs = torch.cat([self.dropout(self.embedding(tokens)), summary], dim=-1)
        hidden, _ = self.rnn(inputs, state=self.bridge(memory.final))
        return self.dropout(torch.cat([hidden, summary], dim=-1))  # type: ignore[no-any-return]

    def each_layer(self) -> list[nn.Module]:
        return list(self.rnn.layers)

    def start(self, memory: Memory, rows: Tensor) -> Any:
        return select_rows(self.bridge(memory.final), rows), Shared(self.summary(memory), rows)

    def prefill_rows(self, tokens: Tensor, lengths: Tensor, state: Any) -> Any:
        """tokens (N, T), lengths (N,) -> the state after them."""
        inner, shared = state
        summary = shared.expand()[:, None].expand(-1, tokens.size(1), -1)
        return self.rnn(torch.cat([self.embedding(tokens), summary], dim=-1), lengths, inner)[1], shared

    def step(self, tokens: Tensor, state: Any) -> Decoded:
        inner, shared = state
        summary = shared.expand()
        hidden, inner = self.rnn.step(torch.cat([self.embedding(tokens), summary], dim=-1), inner)
        return Decoded(torch.cat([hidden, summary], dim=-1), (inner, shared), None)


class AfterDecoder(Decoder):
    """Attention beside the recurrence: all states first, then all queries at once."""

    can_prefill = True

    def __init__(self, config: RecurrentDecoderConfig, embedding: Embedding, encoder: Encoder) -> None:
        super().__init__()
        self.embedding = embedding
        self.dropout = TimeDropout(config.dropout)
        self.rnn = config.build_rnn(embedding.embedding_dim)
        self.bridge = Bridge(config.bridge, encoder, self.rnn)
        self.look = SourceAttention(config, self.rnn.output_size, encoder.output_size)
        self.readout = Readout(self.rnn.output_size + encoder.output_size, self.rnn.output_size)
        self.output_size = self.rnn.output_size

    def forward(self, tokens: Tensor, memory: Memory, lengths: Tensor | None = None) -> Tensor:
        """tokens (B, T) -> hidden (B, T, D)."""
        states, _ = self.rnn(self.dropout(self.embedding(tokens)), state=self.bridge(memory.final))
        context = self.look(states, self.look.source(memory))
        return self.dropout(self.readout(context, states))  # type: ignore[no-any-return]

    def each_layer(self) -> list[nn.Module]:
        return list(self.rnn.layers)

    def start(self, memory: Memory, rows: Tensor) -> Any:
        return select_rows(self.bridge(memory.final), rows), Shared(self.look.source(memory), rows)

    def prefill_rows(self, tokens: Tensor, lengths: Tensor, state: Any) -> Any:
        """tokens (N, T), lengths (N,) -> the state after them, which attention does not change."""
        inner, shared = state
        return self.rnn(self.embedding(tokens), lengths, inner)[1], shared

    def step(self, tokens: Tensor, state: Any) -> Decoded:
        inner, shared = state
        hidden, inner = self.rnn.step(self.embedding(tokens), inner)
        context, weights = self.look.at(hidden, shared)
        return Decoded(self.readout(context, hidden), (inner, shared), weights)


class InsideDecoder(Decoder):
    """Attention inside the recurrence: the state before step t is the query of step t.

    All layers with the attention are one cell, whose loop over time the engine of weft.nn.recurrent compiles.
    """

    def __init__(self, config: RecurrentDecoderConfig, embedding: Embedding, encoder: Encoder) -> None:
        super().__init__()
        self.embedding = embedding
        self.dropout = TimeDropout(config.dropout)
        self.rnn = config.build_rnn(embedding.embedding_dim + encoder.output_size)
        self.bridge = Bridge(config.bridge, encoder, self.rnn)
        query = leaves_of(self.rnn.initial_state(1, torch.empty(0))[-1])[0].size(-1)
        self.look = SourceAttention(config, query, encoder.output_size)
        self.readout = Readout(self.rnn.output_size + encoder.output_size, self.rnn.output_size)
        self.output_size = self.rnn.output_size
        # A list, because their parameters are those of the parts above; the second is for dropout between layers.
        cells = [InsideCell(self, encoder.output_size, drops=drops) for drops in (False, True)]
        self.loops = [Layer([cell], merge="concat", learned=False, backend="auto") for cell in cells]

    def forward(self, tokens: Tensor, memory: Memory, lengths: Tensor | None = None) -> Tensor:
        """tokens (B, T) -> hidden (B, T, D)."""
        vectors, state = self.dropout(self.embedding(tokens)), self.bridge(memory.final)
        if self.steps_are_seen:
            return self.dropout(self.step_through(vectors, state, memory))  # type: ignore[no-any-return]
        masks = self.rnn.dropout_masks(vectors.size(0), vectors.size(1), vectors)
        inputs = torch.cat([vectors, *masks], dim=-1) if masks else vectors
        hidden, _ = self.loops[self.rnn.drops](inputs, None, state, source=self.look.steps_source(memory))
        return self.dropout(hidden)  # type: ignore[no-any-return]

    def step_through(self, vectors: Tensor, state: Any, memory: Memory) -> Tensor:
        """vectors (B, T, E) and the first state -> outputs (B, T, D), in a loop over time that observers can follow."""
        source = Shared(self.look.source(memory), torch.arange(vectors.size(0), device=vectors.device), 1)
        outputs = []
        for vector in vectors.unbind(1):
            hidden, state, _ = self._step(vector, state, source)
            outputs.append(hidden)
        return torch.stack(outputs, dim=1)

    @property
    def steps_are_seen(self) -> bool:
        """Whether attention is recorded, or a layer has observers or runs on the reference, which see every step."""
        return recording() or any(layer.observers or layer.backend == "reference" for layer in self.rnn.stack())

    def explain(self) -> str:
        """How its recurrence runs; see RNN.explain."""
        return self.loops[0].explain()

    def each_layer(self) -> list[nn.Module]:
        return list(self.rnn.layers)

    def start(self, memory: Memory, rows: Tensor) -> Any:
        return select_rows(self.bridge(memory.final), rows), Shared(self.look.source(memory), rows)

    def step(self, tokens: Tensor, state: Any) -> Decoded:
        inner, shared = state
        hidden, inner, weights = self._step(self.embedding(tokens), inner, shared)
        return Decoded(hidden, (inner, shared), weights)

    def _step(self, vector: Tensor, inner: Any, source: Shared) -> tuple[Tensor, Any, Tensor]:
        context, weights = self.look.at(leaves_of(inner[-1])[0], source)
        hidden, inner = self.rnn.step(torch.cat([vector, context], dim=-1), inner)
        return self.readout(context, hidden), inner, weights


class InsideCell(AttendingCell):
    """The step of an `InsideDecoder`, all layers as one cell:

        u  = attend(s, source)
        s' = f(s, [y; u])
        r  = tanh(W [u; s'])

    With dropout between layers its factors follow y in the input.
    """

    def __init__(self, decoder: InsideDecoder, value_size: int, *, drops: bool) -> None:
        rnn, vector = decoder.rnn, decoder.embedding.embedding_dim
        masks = [layer.output_size for layer in rnn.stack()[:-1]] if drops else []
        sizes = {"key_size": decoder.look.steps_key_size(value_size), "value_size": value_size}
        super().__init__(vector + sum(masks), rnn.output_size, **sizes)
        self.sizes = [vector, *masks]
        self.rnn, self.look, self.readout = rnn, decoder.look, decoder.readout

    def step(self, x: Tensor, state: Any, source: Source) -> tuple[Tensor, Any]:  # type: ignore[override]
        """x (B, I), the states of all layers, source -> output (B, D), next states."""
        vector, *masks = x.split(self.sizes, dim=-1)  # type: ignore[no-untyped-call]
        context = self.look.at_step(leaves_of(state[-1])[0], source)
        joined, factors = torch.cat([vector, context], dim=-1), [mask.detach() for mask in masks]
        hidden, state = self.rnn.step(joined, state, masks=factors)
        return self.readout(context, hidden), state

    def zero_state(self, batch: int, like: Tensor) -> Any:
        return tuple(layer.zero_state(batch, like) for layer in self.rnn.stack())


class AttendedSource(NamedTuple):
    """The source as attention reads it: keys and values (B, S, D), and a mask of real positions (B, S)."""

    keys: Tensor
    values: Tensor
    real: Tensor


class SourceAttention(nn.Module):
    """Attention over the source by one score; the part that depends on the keys alone is computed once per sentence.

    By default products of learned maps are divided by √D: the maps could learn the factor themselves, but a softmax
    that starts flat learns in one epoch what a sharp one learns in two.
    """

    attends_to: ClassVar[AttendsTo] = "memory"

    def __init__(self, config: RecurrentDecoderConfig, query_size: int, key_size: int) -> None:
        super().__init__()
        self.score = SCORES[config.attention](query_size, key_size)
        self.hard, scale = config.attention_hard, config.attention_scale
        self.scale: float | None
        if scale == "auto":
            self.scale = query_size**-0.5 if self.score.product_of_maps else None
        else:
            self.scale = scale_of(scale, query_size, key_size)

    def source(self, memory: Memory) -> AttendedSource:
        assert isinstance(memory.lengths, Tensor), "batches are packed only if both encoder and decoder pack"
        real = length_mask(memory.lengths.to(memory.states.device), memory.states.size(1))
        return AttendedSource(self.score.keys(memory.states), memory.states, real)

    def forward(self, query: Tensor, source: AttendedSource) -> Tensor:
        """query (B, T, D) -> context (B, T, D')."""
        found: Tensor = attend(query, source.keys, source.values, **self._options(source))
        return found

    def at(self, query: Tensor, shared: Shared) -> tuple[Tensor, Tensor]:
        """One query of each row, (N, D), and the source of its sentence -> context (N, D'), weights (N, S)."""
        queries, source = shared.meet(query)
        found = attend(queries, source.keys, source.values, weights=True, **self._options(source))
        return found[0].flatten(0, 1), found[1].flatten(0, 1)

    def steps_source(self, memory: Memory) -> Source:
        """The source of a recurrence, with lengths in the place of a mask."""
        assert isinstance(memory.lengths, Tensor), "batches are packed only if both encoder and decoder pack"
        return Source(self.score.keys(memory.states), memory.states, memory.lengths)

    def steps_key_size(self, key_size: int) -> int:
        """The size of its keys, of memories of size `key_size`."""
        like = next(self.parameters(), torch.empty(0))
        with torch.no_grad():
            return self.score.keys(like.new_empty(1, 1, key_size)).size(-1)

    def at_step(self, query: Tensor, source: Source) -> Tensor:
        """One query of each row, (B, D) -> context (B, D'): `at` for a recurrence."""
        found = self.score.for_step(query)
        if found is None:  # then the cell runs step by step, since this is more than to attend
            mask, score = length_mask(source.lengths, source.keys.size(1))[:, None], self.score.compare
            options: dict[str, Any] = {"score": score, "mask": mask, "scale": self.scale, "hard": self.hard}
            context: Tensor = attend(query[:, None], source.keys, source.values, **options)
            return context[:, 0]
        scale = found.scale if self.scale is None else self.scale
        return source.attend(found.query, over=found.over, scale=scale, hard=self.hard)

    def _options(self, source: AttendedSource) -> dict[str, Any]:
        mask, score = source.real[:, None], self.score.compare
        return {"score": score, "mask": mask, "scale": self.scale, "hard": self.hard, "module": self}


class Readout(nn.Module):
    """r = tanh(W [a; s])."""

    def __init__(self, input_size: int, output_size: int) -> None:
        super().__init__()
        self.map = Linear(input_size, output_size)

    def forward(self, context: Tensor, state: Tensor) -> Tensor:
        return torch.tanh(self.map(torch.cat([context, state], dim=-1)))


def summary_size(encoder: Encoder) -> int:
    return sum(part.size(-1) for part in leaves_of(encoder.final_like()[-1]))


CONTEXTS: dict[str, type[PlainDecoder | AfterDecoder | InsideDecoder]] = {
    "first": PlainDecoder,
    "every": PlainDecoder,
    "attention": InsideDecoder,
    "after": AfterDecoder,
}
