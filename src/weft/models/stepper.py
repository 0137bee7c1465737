"""All that search knows of a model: how a sentence starts, and one step from tokens to logits."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from torch import Tensor

from weft.nn.state import State


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
