"""The model's side of a search: a row for every hypothesis, K of each sentence, one step at a time."""

from __future__ import annotations

from typing import Any, Final, Protocol

from torch import Tensor

from weft.decoding.request import Request
from weft.models.stepper import FixedStepper, Step, Stepper
from weft.nn import select_rows
from weft.nn.lanes import keep, own, put, reorder, rows_of, write

MOST_ROWS: Final = {"cpu": 128, "cuda": 512}
"""Rows that a step takes at most: enough to keep the device busy; more sentences wait for a free lane."""


class Rows(Protocol):
    """The rows of A lanes."""

    def step(self, tokens: Tensor) -> Step:
        """tokens (A·K,) -> what may follow each. The rows are one step further."""

    def reorder(self, rows: Tensor) -> None:
        """Row i becomes what row rows[i] of the same lane was."""

    def keep(self, lanes: Tensor) -> None:
        """Go on with those lanes alone."""

    def admit(self, lanes: Tensor, sentences: Tensor) -> None:
        """New sentences begin in those lanes."""


class GrowingRows:
    """Any stepper: its states may have any shape, so all sentences start together and none can join later."""

    def __init__(self, model: Stepper, memory: Any, sentences: Tensor, each: int) -> None:
        self.model, self.each = model, each
        self.state = model.start(memory, sentences.repeat_interleave(each))

    def step(self, tokens: Tensor) -> Step:
        found = self.model.step(tokens, self.state)
        self.state = found.state
        return found

    def reorder(self, rows: Tensor) -> None:
        self.state = select_rows(self.state, rows)

    def keep(self, lanes: Tensor) -> None:
        self.state = select_rows(self.state, rows_of(lanes, self.each))

    def admit(self, lanes: Tensor, sentences: Tensor) -> None:
        raise NotImplementedError("all sentences have started")


class FixedRows:
    """A stepper with states of fixed shape: a sentence that ends makes room for another."""

    def __init__(
        self, model: FixedStepper, memory: Any, sentences: Tensor, each: int, *, room: int, attention: bool
    ) -> None:
        self.model, self.memory, self.each, self.attention = model, memory, each, attention
        self.state = own(model.reserve(memory, sentences, each=each, room=room))

    def step(self, tokens: Tensor) -> Step:
        found = self.model.step(tokens, self.state, attention=self.attention)
        write(self.state, found.state)
        return found

    def reorder(self, rows: Tensor) -> None:
        write(self.state, reorder(self.state, rows))

    def keep(self, lanes: Tensor) -> None:
        self.state = keep(self.state, lanes, self.each)

    def admit(self, lanes: Tensor, sentences: Tensor) -> None:
        put(self.state, lanes, self.model.reserve(self.memory, sentences, each=self.each, room=0), self.each)


def open_rows(
    model: Stepper | FixedStepper, memory: Any, sentences: Tensor, request: Request, *, each: int, attention: bool
) -> Rows:
    """Rows for these sentences, as the model can have them."""
    if isinstance(model, FixedStepper):
        return FixedRows(model, memory, sentences, each, room=request.room, attention=attention)
    return GrowingRows(model, memory, sentences, each)
