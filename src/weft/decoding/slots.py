"""Slots of a search: the rows of the model and the beams beside them, one step after another."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor

from weft.decoding import beam_cpu, beam_gpu
from weft.decoding.backtrack import Backtrack, read_slots
from weft.decoding.beam import advance_beam
from weft.decoding.beam_cpu import CpuBeam
from weft.decoding.beam_gpu import GpuBeam
from weft.decoding.beam_state import BeamShape, BeamState
from weft.decoding.memory import pad_memory, source_length
from weft.decoding.request import Request, send
from weft.decoding.rows import FixedRows, GrowingRows, SearchRows
from weft.decoding.sample import advance_sample
from weft.decoding.trace import SearchListener
from weft.models.stepper import FixedStepper, Stepper, Writer, is_fixed

MAX_ROWS: Final = {"cpu": 128, "cuda": 512}
"""The most rows of a step, by device: enough to keep it busy. More sentences are queued."""


class Poll:
    """Which slots were live at one moment, copied to the host without blocking."""

    def __init__(self, live: Tensor) -> None:
        self.live = live.to("cpu", non_blocking=True, copy=True)
        self.moment = torch.cuda.current_stream().record_event() if live.is_cuda else None

    def read(self) -> list[bool]:
        """Whether each slot was live; blocks until the device has reached that moment."""
        if self.moment is not None:
            self.moment.synchronize()
        found: list[bool] = self.live.tolist()
        return found


class Slots:
    """A slots of K hypotheses; a step advances all of them."""

    refills = True
    """Whether a queued sentence can start in the slot of one that has ended."""
    shrinks = True
    """Whether free slots can be dropped."""
    resizes = True
    """Whether slots can become more, or longer."""
    polls_ahead = 0
    """Polls queued on the device before the host reads the first of them."""

    def __init__(self, rows: SearchRows, beams: BeamState, request: Request) -> None:
        self.rows, self.beams, self.request = rows, beams, request
        self.gpu_beam: GpuBeam | None = None
        self.cpu_beam: CpuBeam | None = None
        self.listener: SearchListener | None = None
        """The listener of the steps, which are then made by the plain search."""

    @property
    def count(self) -> int:
        return self.beams.shape.slots

    def steps(self, max_steps: int) -> int:
        """Run one step or, where that is faster, several, but at most `max_steps` -> how many."""
        if self.listener is not None or not beam_cpu.serves(self.rows, self.beams, self.request):
            self.step()
            return 1
        assert isinstance(self.rows, FixedRows)
        assert isinstance(self.rows.model, Writer)
        if self.cpu_beam is None:
            reader = None if self.request.has_prefixes else beam_cpu.reader_of(self.rows, self.beams)
            self.cpu_beam = CpuBeam(self.beams, self.request, self.rows.model.output, reader)
        if self.cpu_beam.reader is not None:
            return self.cpu_beam.steps(max_steps)
        self._commit(self._step_cpu(self.cpu_beam))
        return 1

    def step(self) -> None:
        """Run one step of the model and of the beams."""
        self._commit(self._step())

    def _commit(self, rows: Tensor | None) -> None:
        self.rows.commit(rows if self.beams.shape.width > 1 else None)

    def _step(self) -> Tensor | None:
        """Step model and beams -> the row that each row continues, or None where each continues itself."""
        beams, request = self.beams, self.request
        logits, _, attention = self.rows.step(beams.tokens.view(-1))
        if request.config.sample:
            advance_sample(beams, logits, request, attention)
            return None
        plain = attention is None and request.plain and self.listener is None
        if plain and beam_gpu.serves(beams, logits):
            self.gpu_beam = self.gpu_beam or GpuBeam(beams, request, logits.size(1))
            return self.gpu_beam(logits)
        return advance_beam(beams, logits, request, attention, self.listener)

    def _step_cpu(self, beam: CpuBeam) -> Tensor:
        """`_step` with the beams advanced in C."""
        assert isinstance(self.rows, FixedRows)
        hidden, _, attention = self.rows.hidden_step(self.beams.tokens.view(-1))
        self.beams.store_attention(attention)
        return beam(hidden)

    def poll(self) -> Poll:
        """Which slots are live after the steps so far, to be read later."""
        return Poll(self.beams.live)

    def read(self, slots: list[int], since: Poll) -> Backtrack:
        """The contents of slots that were not live at a poll."""
        return read_slots(self.beams, send(slots, self.beams.device))

    def admit(self, slots: Tensor, memory: Any, request: Request, sentences: list[int]) -> None:
        """Start sentences of a memory and its request in those slots."""
        self.rows.set_memory(memory)
        numbers = send(sentences, request.device)
        self.rows.admit(slots, numbers, [request.prompts[sentence] for sentence in sentences])
        self.beams.admit(slots, request, numbers)

    def fits(self, memory: Any, request: Request) -> bool:
        """Whether sentences of this memory and request can start in the slots that are there."""
        assert isinstance(self.rows, FixedRows)
        shape, own = self.beams.shape, shape_of(request, 1)
        short = own.steps <= shape.steps and own.prefix <= shape.prefix and request.capacity <= self.rows.capacity
        return short and source_length(memory) <= source_length(self.rows.memory)

    def resize(self, slots: int, kept: Tensor, memory: Any, request: Request) -> None:
        """Make so many slots, in which sentences of this memory and request can start; the first of them are those
        `kept` (n,) of the old ones, as they are."""
        assert isinstance(self.rows, FixedRows)
        shape, own = self.beams.shape, shape_of(request, slots)
        source = max(source_length(self.rows.memory), source_length(memory))
        larger = shape._replace(slots=slots, steps=max(shape.steps, own.steps), prefix=max(shape.prefix, own.prefix))
        self.rows.resize(pad_memory(memory, source), slots, kept, capacity=max(self.rows.capacity, request.capacity))
        self.beams = self.beams.resized(larger, kept, source=source)
        self.gpu_beam = self.cpu_beam = None

    def keep(self, slots: Tensor) -> None:
        """Drop all slots but those."""
        self.beams.keep(slots)
        self.rows.keep(slots)
        self.gpu_beam = self.cpu_beam = None

    def close(self) -> None:
        """End the search."""


class GrowingSlots(Slots):
    """The slots of a stepper whose states may have any shape."""

    refills = resizes = False

    def fits(self, memory: Any, request: Request) -> bool:
        return False


def open_slots(
    model: Stepper | FixedStepper, memory: Any, request: Request, sentences: list[int], *, attention: bool
) -> Slots:
    """Slots in which these sentences have started, of fixed shape if the model has such states."""
    shape, numbers = shape_of(request, len(sentences)), send(sentences, request.device)
    beams = BeamState(shape, request.device, dtype_of(model))
    beams.admit(beams.slots, request, numbers)
    if is_fixed(model):
        rows = FixedRows(model, memory, numbers, shape.width, capacity=request.capacity, attention=attention)
        rows.prefill(beams.slots, [request.prompts[sentence] for sentence in sentences])
        return Slots(rows, beams, request)
    return GrowingSlots(GrowingRows(model, memory, numbers, shape.width), beams, request)


def shape_of(request: Request, slots: int) -> BeamShape:
    """The shape that a request needs, in so many slots."""
    return BeamShape(
        slots=slots,
        width=request.width,
        n_best=min(request.width, request.config.n_best),
        steps=max(request.steps),
        prefix=request.prefixes.size(1),
        draws=request.config.sample,
    )


def dtype_of(model: Any) -> torch.dtype:
    """The type of scores: that of a network, but at least single precision; double for any other model."""
    if not isinstance(model, torch.nn.Module):
        return torch.float64
    return torch.promote_types(next(model.parameters()).dtype, torch.float32)
