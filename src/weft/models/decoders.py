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
from weft.nn import SCORES, Shared, TimeDropout, attend, leaves_of, length_mask, select_rows
from weft.nn.attention.recording import AttendsTo
from weft.nn.attention.scores import scale_of
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
    """Attention inside the recurrence: the state before step t is the query of step t."""

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

    def forward(self, tokens: Tensor, memory: Memory, lengths: Tensor | None = None) -> Tensor:
        """tokens (B, T) -> hidden (B, T, D). The next query needs this step's state, so time is a loop."""
        source = Shared(self.look.source(memory), torch.arange(tokens.size(0), device=tokens.device), 1)
        inner, outputs = self.bridge(memory.final), []
        for vector in self.dropout(self.embedding(tokens)).unbind(1):
            hidden, inner, _ = self._step(vector, inner, source)
            outputs.append(hidden)
        return self.dropout(torch.stack(outputs, dim=1))  # type: ignore[no-any-return]

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
        real = length_mask(memory.lengths, memory.states.size(1))
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

    def _options(self, source: AttendedSource) -> dict[str, Any]:
        mask, score = source.real[:, None], self.score.compare
        return {"score": score, "mask": mask, "scale": self.scale, "hard": self.hard, "module": self}


class Readout(nn.Module):
    """r = tanh(W [a; s])."""

    def __init__(self, input_size: int, output_size: int) -> None:
        super().__init__()
        self.map = nn.Linear(input_size, output_size)

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
