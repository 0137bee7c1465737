"""The contract between search and a model: how a sentence starts, and one step from tokens to logits."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, TypeGuard

import torch
from torch import Tensor, nn

from weft.models.embedding import Output
from weft.models.memory import Decoded, Decoder
from weft.nn import State, select_rows


class Step(NamedTuple):
    """logits (N, V) for the next token, the state after this one, and the attention weights (N, S) if there are any."""

    logits: Tensor
    state: State
    attention: Tensor | None = None


class Stepper(Protocol):
    """A model that generates: recurrent, transformer or counted.

    Row i of a state continues one hypothesis; search reorders, repeats and drops rows with `select_rows` and does
    nothing else to it. The numbers equal those of the model's full pass over the same tokens.
    """

    def start(self, memory: Any, rows: Tensor) -> State:
        """The state before any token, for hypotheses of the sentences rows (N,) of the memory."""

    def step(self, tokens: Tensor, state: State) -> Step:
        """tokens (N,), one for each row of the state -> what may follow each."""


class FixedStepper(Protocol):
    """A stepper that also has states of fixed shape, in slots (see weft.nn.slots): the fast search runs on them."""

    @property
    def longest(self) -> int | None:
        """The most tokens that it can read, if there is a limit."""

    def start(self, memory: Any, rows: Tensor) -> State: ...

    def reserve(self, memory: Any, sentences: Tensor, *, width: int, capacity: int) -> State:
        """`start` for `width` hypotheses of each of the sentences (A,) of the memory, for up to `capacity` tokens. The
        state is written in place later, so it holds a copy of the memory."""

    def step(self, tokens: Tensor, state: State, *, attention: bool = True) -> Step:
        """One step; without `attention` no attention weights are returned."""


class Prefiller(Protocol):
    """A fixed stepper that can read a prompt in one pass. Others read it token by token."""

    @property
    def can_prefill(self) -> bool:
        """Whether it does."""

    def prefill(self, tokens: Tensor, lengths: Tensor, state: State, *, slots: Tensor, width: int) -> None:
        """Read the prompts of slots (n,) of `width` rows that have just begun: tokens (n, P), lengths (n,) on the CPU.
        The state is written in place."""


def is_fixed(model: Any) -> TypeGuard[FixedStepper]:
    """Whether a model has states of fixed shape."""
    return hasattr(model, "reserve")


def can_prefill(model: Any) -> TypeGuard[Prefiller]:
    """Whether a model reads a prompt in one pass."""
    return is_fixed(model) and getattr(model, "can_prefill", False)


class Writer(nn.Module):
    """A decoder and the scores of the next token: all networks that generate text step by step."""

    decoder: Decoder
    output: Output

    def start(self, memory: Any, rows: Tensor) -> Any:
        """The state before the first token; hypothesis n belongs to sentence rows[n] of the memory, if there is one."""
        return self.decoder.start(memory, rows)

    def reserve(self, memory: Any, sentences: Tensor, *, width: int, capacity: int) -> Any:
        """`start` for up to `capacity` tokens, in a slot of `width` hypotheses for each of the sentences (A,)."""
        chosen = select_rows(memory, sentences)
        rows = torch.arange(sentences.numel(), device=sentences.device).repeat_interleave(width)
        return self.decoder.reserve(chosen, rows, width=width, capacity=capacity)

    @property
    def can_prefill(self) -> bool:
        """Whether it reads a prompt in one pass."""
        return self.decoder.can_prefill

    def prefill(self, tokens: Tensor, lengths: Tensor, state: Any, *, slots: Tensor, width: int) -> None:
        """Read the prompts, tokens (n, P) and lengths (n,), of slots (n,) that have just begun; see `Prefiller`."""
        self.decoder.prefill(tokens, lengths, state, slots=slots, width=width)

    def step(self, tokens: Tensor, state: Any, *, attention: bool = True) -> Step:
        """tokens (N) -> logits (N, V) of the token after each; attention weights only on request."""
        hidden, state, weights = self.hidden_step(tokens, state, attention=attention)
        return Step(self.output(hidden), state, weights)

    def hidden_step(self, tokens: Tensor, state: Any, *, attention: bool = True) -> Decoded:
        """`step` up to the hidden states (N, D) that `output` scores."""
        decoder = self.decoder
        return decoder.step(tokens, state) if attention else decoder.step_without_attention(tokens, state)

    @property
    def longest(self) -> int | None:
        """The most tokens that it can read, if there is a limit."""
        return self.decoder.longest
