"""The model's side of a search: a row for every hypothesis, K of each sentence, one step at a time."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

import torch
from torch import Tensor

from weft.decoding.request import send
from weft.models.memory import Decoded
from weft.models.stepper import FixedStepper, Step, Stepper, Writer, can_prefill
from weft.nn import State, select_rows
from weft.nn.slots import keep, own, put, reorder, rows_of, write
from weft.text import PAD

MOST_POSITIONS: Final = {"cpu": 1 << 13, "cuda": 1 << 15}
"""Of prompts that are read together: enough to keep the device busy, and no more memory than that takes."""

Prompts = Sequence[Sequence[int]]
"""What the model reads of each sentence before its search begins, or nothing."""


class Rows(Protocol):
    """The rows of A slots."""

    def step(self, tokens: Tensor) -> Step:
        """tokens (A·K,) -> what may follow each."""

    def settle(self, rows: Tensor | None) -> None:
        """After the step, row i continues row rows[i] of its slot, or itself."""

    def keep(self, slots: Tensor) -> None:
        """Go on with those slots alone."""

    def admit(self, slots: Tensor, sentences: Tensor, prompts: Prompts) -> None:
        """New sentences begin in those slots, with what they have read."""


class GrowingRows:
    """Any stepper: its states may have any shape, so all sentences start together and none can join later."""

    def __init__(self, model: Stepper, memory: Any, sentences: Tensor, each: int) -> None:
        self.model, self.each = model, each
        self.state = model.start(memory, sentences.repeat_interleave(each))

    def step(self, tokens: Tensor) -> Step:
        found = self.model.step(tokens, self.state)
        self.state = found.state
        return found

    def settle(self, rows: Tensor | None) -> None:
        if rows is not None:
            self.state = select_rows(self.state, rows)

    def keep(self, slots: Tensor) -> None:
        self.state = select_rows(self.state, rows_of(slots, self.each))

    def admit(self, slots: Tensor, sentences: Tensor, prompts: Prompts) -> None:
        raise NotImplementedError("all sentences have started")


class FixedRows:
    """A stepper with states of fixed shape: a sentence that ends makes room for another."""

    def __init__(
        self, model: FixedStepper, memory: Any, sentences: Tensor, each: int, *, room: int, attention: bool
    ) -> None:
        self.memory, self.each, self.attention = memory, each, attention
        self._model = weakref.ref(model)  # who is kept with a model must not keep it
        self.state = own(model.reserve(memory, sentences, width=each, capacity=room))
        self.after: State = None

    @property
    def model(self) -> FixedStepper:
        model = self._model()
        assert model is not None
        return model

    def turn_to(self, memory: Any) -> None:
        """Sentences that come from now on are those of another memory, of the same shape."""
        self.memory = memory

    def step(self, tokens: Tensor) -> Step:
        found = self.model.step(tokens, self.state, attention=self.attention)
        self.after = found.state
        return found

    def hidden_step(self, tokens: Tensor) -> Decoded:
        """The same up to what the model's output scores."""
        assert isinstance(self.model, Writer)
        found = self.model.hidden_step(tokens, self.state, attention=self.attention)
        self.after = found.state
        return found

    def settle(self, rows: Tensor | None) -> None:
        write(self.state, self.after if rows is None else reorder(self.after, rows))
        self.after = None

    def keep(self, slots: Tensor) -> None:
        self.state = keep(self.state, slots, self.each)

    def admit(self, slots: Tensor, sentences: Tensor, prompts: Prompts) -> None:
        put(self.state, slots, self.model.reserve(self.memory, sentences, width=self.each, capacity=0), self.each)
        self.prefill(slots, prompts)

    def prefill(self, slots: Tensor, prompts: Prompts) -> None:
        """Those slots (n,), which have just begun, read their prompts."""
        model = self.model
        most = MOST_POSITIONS.get(slots.device.type, MOST_POSITIONS["cpu"])
        for group in _some_at_a_time([len(prompt) for prompt in prompts], most):
            lengths = [len(prompts[number]) for number in group]
            padded = [[*prompts[number], *[PAD] * (lengths[0] - len(prompts[number]))] for number in group]
            here, tokens = send(group, slots.device), send(padded, slots.device)
            assert can_prefill(model)
            model.prefill(tokens, torch.tensor(lengths), self.state, slots=slots[here], width=self.each)


def _some_at_a_time(lengths: list[int], most: int) -> Iterator[list[int]]:
    """The numbers of those that are not empty, the longest first, in groups of a few positions and little padding."""
    group: list[int] = []
    longest_first = sorted(range(len(lengths)), key=lambda number: -lengths[number])
    for number in longest_first:
        longest = lengths[group[0]] if group else 0
        if group and (longest * (len(group) + 1) > most or 2 * lengths[number] < longest):
            yield group
            group = []
        if lengths[number]:
            group.append(number)
    if group:
        yield group
