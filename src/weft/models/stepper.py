"""All that search knows of a model: how a sentence starts, and one step from tokens to logits."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, TypeGuard

import torch
from torch import Tensor

from weft.models.memory import Decoded, Decoder
from weft.models.transformer import TransformerDecoder
from weft.nn import State
from weft.nn.lanes import in_lanes


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
    """A stepper that also knows states of fixed shape, in lanes (see weft.nn.lanes): what a fast search runs on."""

    @property
    def longest(self) -> int | None:
        """The most tokens that it can read, if there is a limit."""

    def start(self, memory: Any, rows: Tensor) -> State: ...

    def reserve(self, memory: Any, sentences: Tensor, *, each: int, room: int) -> State:
        """`start` for `each` hypotheses of each of the sentences (A,) of the memory, with room for so many tokens."""

    def step(self, tokens: Tensor, state: State, *, attention: bool = True) -> Step:
        """The same; without `attention` nobody asks for it."""


def is_fixed(model: Any) -> TypeGuard[FixedStepper]:
    """Whether a model knows states of fixed shape."""
    return hasattr(model, "reserve")


def reserve(decoder: Decoder, memory: Any, sentences: Tensor, *, each: int, room: int) -> State:
    """The state of a decoder in lanes, one for each sentence of the memory."""
    rows = torch.arange(sentences.numel(), device=sentences.device).repeat_interleave(each)
    if isinstance(decoder, TransformerDecoder):
        return decoder.reserve(memory, rows.numel(), each=each, room=room)
    return in_lanes(decoder.start(memory, rows), each)


def step(decoder: Decoder, tokens: Tensor, state: State, *, attention: bool) -> Decoded:
    """A step of any decoder."""
    if isinstance(decoder, TransformerDecoder):
        return decoder.step(tokens, state, attention=attention)
    found = decoder.step(tokens, state)
    return found if attention else found._replace(attention=None)
