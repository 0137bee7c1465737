"""All that search knows of a model: how a sentence starts, and one step from tokens to logits."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, TypeGuard

import torch
from torch import Tensor, nn

from weft.models.embedding import Output
from weft.models.memory import Decoded, Decoder
from weft.models.transformer import TransformerDecoder
from weft.nn import State, select_rows
from weft.nn.slots import first_of, in_slots, spread


class Step(NamedTuple):
    """logits (N, V) for the next token, the state after this one, and where the model looked, attention (N, S)."""

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
    """A stepper that also knows states of fixed shape, in slots (see weft.nn.slots): what a fast search runs on."""

    @property
    def longest(self) -> int | None:
        """The most tokens that it can read, if there is a limit."""

    def start(self, memory: Any, rows: Tensor) -> State: ...

    def reserve(self, memory: Any, sentences: Tensor, *, each: int, room: int) -> State:
        """`start` for `each` hypotheses of each of the sentences (A,) of the memory, with room for so many tokens. What
        the hypotheses of a sentence share is a copy of the memory's, to be written over."""

    def step(self, tokens: Tensor, state: State, *, attention: bool = True) -> Step:
        """The same; without `attention` nobody asks for it."""


class Prefiller(Protocol):
    """What a fixed stepper may offer besides: to read a prompt at once. Others follow it token by token."""

    @property
    def can_prefill(self) -> bool:
        """Whether it does."""

    def prefill(self, tokens: Tensor, lengths: Tensor, state: State, *, slots: Tensor, each: int) -> None:
        """All `each` rows of those slots (n,), which have just begun, have read tokens (n, P), as many as lengths (n,)
        say, which stand on the CPU. The state is written over."""


def is_fixed(model: Any) -> TypeGuard[FixedStepper]:
    """Whether a model knows states of fixed shape."""
    return hasattr(model, "reserve")


def can_prefill(model: Any) -> TypeGuard[Prefiller]:
    """Whether a model reads a prompt at once."""
    return is_fixed(model) and getattr(model, "can_prefill", False)


class Writer(nn.Module):
    """A decoder and the scores of what comes next: what all networks that write tokens do step by step."""

    decoder: Decoder
    output: Output

    def start(self, memory: Any, rows: Tensor) -> Any:
        """The state before the first token; hypothesis n belongs to sentence rows[n] of the memory, if there is one."""
        return self.decoder.start(memory, rows)

    def reserve(self, memory: Any, sentences: Tensor, *, each: int, room: int) -> Any:
        """The same with room for so many tokens: a slot of `each` hypotheses for each of the sentences (A,)."""
        chosen = select_rows(memory, sentences)
        rows = torch.arange(sentences.numel(), device=sentences.device).repeat_interleave(each)
        if isinstance(self.decoder, TransformerDecoder):
            return self.decoder.reserve(chosen, rows.numel(), each=each, room=room)
        return in_slots(self.decoder.start(chosen, rows), each)

    @property
    def can_prefill(self) -> bool:
        """Whether it reads a prompt at once."""
        return hasattr(self.decoder, "prefill")

    def prefill(self, tokens: Tensor, lengths: Tensor, state: Any, *, slots: Tensor, each: int) -> None:
        """The rows of those slots (n,) have read tokens (n, P), as many as lengths (n,) say; see `Prefiller`."""
        decoder: Any = self.decoder
        if isinstance(decoder, TransformerDecoder):
            decoder.prefill(tokens, lengths, state, slots=slots, each=each)
        else:
            spread(state, slots, decoder.prefill(tokens, lengths, first_of(state, slots, each)), each)

    def step(self, tokens: Tensor, state: Any, *, attention: bool = True) -> Step:
        """tokens (N) -> logits (N, V) of the token after each; without `attention` nobody needs to know it."""
        hidden, state, looked = self.hidden_step(tokens, state, attention=attention)
        return Step(self.output(hidden), state, looked)

    def hidden_step(self, tokens: Tensor, state: Any, *, attention: bool = True) -> Decoded:
        """The same up to what `output` scores, hidden (N, D)."""
        asked = {"attention": attention} if isinstance(self.decoder, TransformerDecoder) else {}
        found = self.decoder.step(tokens, state, **asked)
        return found if attention else found._replace(attention=None)

    @property
    def longest(self) -> int | None:
        """The most tokens that it can read, if there is a limit."""
        return getattr(self.decoder, "longest", None)
