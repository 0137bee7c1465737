"""The model's side of a search: a row for every hypothesis, K of each sentence, one step at a time."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

import torch
from torch import Tensor

from weft.decoding.memory import pad_memory, source_length
from weft.decoding.request import send
from weft.models.memory import Decoded
from weft.models.stepper import FixedStepper, Step, Stepper, Writer, can_prefill
from weft.nn import State, select_rows
from weft.nn.slots import keep, move, own, put, reorder, rows_of, write
from weft.text import PAD

MAX_PREFILL_POSITIONS: Final = {"cpu": 1 << 13, "cuda": 1 << 15}
"""The most positions of prompts in one pass, by device: enough to keep it busy; more would only take more memory."""

Prompts = Sequence[Sequence[int]]
"""The tokens that the model reads of each sentence before its first step; they may be empty."""


class SearchRows(Protocol):
    """The rows of A slots."""

    def step(self, tokens: Tensor) -> Step:
        """tokens (A·K,) -> the scores of what may follow each."""

    def commit(self, rows: Tensor | None) -> None:
        """Take the state after the step: row i continues row rows[i] of its slot, or itself."""

    def keep(self, slots: Tensor) -> None:
        """Drop all slots but those."""

    def set_memory(self, memory: Any) -> None:
        """Admit sentences of this memory from now on."""

    def admit(self, slots: Tensor, sentences: Tensor, prompts: Prompts) -> None:
        """Start new sentences in those slots, after their prompts."""


class GrowingRows:
    """The rows of any stepper: its states may have any shape, so all sentences start together and none later."""

    def __init__(self, model: Stepper, memory: Any, sentences: Tensor, width: int) -> None:
        self.model, self.width = model, width
        self.state = model.start(memory, sentences.repeat_interleave(width))

    def step(self, tokens: Tensor) -> Step:
        found = self.model.step(tokens, self.state)
        self.state = found.state
        return found

    def commit(self, rows: Tensor | None) -> None:
        if rows is not None:
            self.state = select_rows(self.state, rows)

    def keep(self, slots: Tensor) -> None:
        self.state = select_rows(self.state, rows_of(slots, self.width))

    def set_memory(self, memory: Any) -> None:
        """All sentences have started."""

    def admit(self, slots: Tensor, sentences: Tensor, prompts: Prompts) -> None:
        raise NotImplementedError("all sentences have started")


class FixedRows:
    """The rows of a stepper with states of fixed shape: a sentence can start where another has ended."""

    def __init__(
        self, model: FixedStepper, memory: Any, sentences: Tensor, width: int, *, capacity: int, attention: bool
    ) -> None:
        self.memory, self.width, self.attention, self.capacity = memory, width, attention, capacity
        self._model = weakref.ref(model)  # recordings of a model are kept with it, and must not keep it alive
        self.state = own(model.reserve(memory, sentences, width=width, capacity=capacity))
        self.after: State = None

    @property
    def model(self) -> FixedStepper:
        model = self._model()
        assert model is not None
        return model

    def set_memory(self, memory: Any) -> None:
        """Admit sentences of another memory, no longer than that of the reserved state, from now on."""
        self.memory = pad_memory(memory, source_length(self.memory))

    def step(self, tokens: Tensor) -> Step:
        found = self.model.step(tokens, self.state, attention=self.attention)
        self.after = found.state
        return found

    def hidden_step(self, tokens: Tensor) -> Decoded:
        """`step` up to the hidden states, which the model's output scores."""
        assert isinstance(self.model, Writer)
        found = self.model.hidden_step(tokens, self.state, attention=self.attention)
        self.after = found.state
        return found

    def commit(self, rows: Tensor | None) -> None:
        write(self.state, self.after if rows is None else reorder(self.after, rows))
        self.after = None

    def keep(self, slots: Tensor) -> None:
        self.state = keep(self.state, slots, self.width)

    def resize(self, memory: Any, slots: int, kept: Tensor, *, capacity: int) -> None:
        """Make `slots` slots for texts of up to `capacity` tokens and sentences of a memory of this size; the first of
        them are those `kept` (n,) of the old ones."""
        any_sentence = torch.zeros(slots, dtype=torch.long, device=kept.device)
        state = own(self.model.reserve(memory, any_sentence, width=self.width, capacity=capacity))
        move(state, torch.arange(kept.numel(), device=kept.device), self.state, kept, self.width)
        self.state, self.memory, self.capacity = state, memory, capacity

    def admit(self, slots: Tensor, sentences: Tensor, prompts: Prompts) -> None:
        put(self.state, slots, self.model.reserve(self.memory, sentences, width=self.width, capacity=0), self.width)
        self.prefill(slots, prompts)

    def prefill(self, slots: Tensor, prompts: Prompts) -> None:
        """Read the prompts of slots (n,) that have just started."""
        model = self.model
        positions = MAX_PREFILL_POSITIONS.get(slots.device.type, MAX_PREFILL_POSITIONS["cpu"])
        for group in _prefill_groups([len(prompt) for prompt in prompts], positions):
            lengths = [len(prompts[number]) for number in group]
            padded = [[*prompts[number], *[PAD] * (lengths[0] - len(prompts[number]))] for number in group]
            here, tokens = send(group, slots.device), send(padded, slots.device)
            assert can_prefill(model)
            model.prefill(tokens, torch.tensor(lengths), self.state, slots=slots[here], width=self.width)


def _prefill_groups(lengths: list[int], max_positions: int) -> Iterator[list[int]]:
    """The indices of prompts that are not empty, the longest first, in groups of few positions and little padding."""
    group: list[int] = []
    longest_first = sorted(range(len(lengths)), key=lambda number: -lengths[number])
    for number in longest_first:
        longest = lengths[group[0]] if group else 0
        if group and (longest * (len(group) + 1) > max_positions or 2 * lengths[number] < longest):
            yield group
            group = []
        if lengths[number]:
            group.append(number)
    if group:
        yield group
