"""The plan on a CPU: the generated C, compiled for this machine, called with the addresses of the tensors."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch
from torch import Tensor

from weft.nn.native import pages
from weft.nn.native.compiler import compile_library
from weft.nn.native.threads import parallel
from weft.nn.recurrent.engine.argument import KEYS, SOURCE_LENGTHS, Argument, Kind, arguments
from weft.nn.recurrent.engine.c_source import CSource
from weft.nn.recurrent.engine.call import RecurrenceCall

if TYPE_CHECKING:
    from weft.nn.recurrent.engine.plan import Kernels, StepCounts, Tensors

HOISTED: Final = Argument(Kind.HOISTED, 0)

MAX_BLOCK_ROWS: Final = 64
"""Rows of a block: enough to use each part of the weights many times, few enough to stay in a core's cache."""


class CPUBackend:
    """The compiled loop of one plan."""

    def __init__(self, plan: Kernels) -> None:
        self.weights = arguments(Kind.WEIGHT, len(plan.program.products))
        self.attends = bool(plan.program.attends)
        self.source = CSource(plan.program, plan.adjoint, plan.layout, plan.biased)
        library = compile_library(self.source.text)
        RecurrenceCall.check_layout(library)
        self._forward, self._backward = library.forward, library.backward
        self._sizes = (ctypes.c_long * (len(self.source.sizes) + 1))(*self.source.sizes)

    def forward(self, tensors: list[Tensors], steps: StepCounts, reverse: list[bool]) -> None:
        """Fill histories, emitted values, last states and, where there are buffers for it, what is saved."""
        tables = row_tables(steps, len(tensors[0][HOISTED]))
        self._call(self._forward, self.source.forward_arguments, tensors, steps, tables, reverse)

    def backward(self, tensors: list[Tensors], steps: StepCounts, reverse: list[bool]) -> None:
        """Fill the gradients of hoisted values, products, vectors and first states, and the left sides.

        Adds to the tensors: the states before each step that are left sides, and what each block has summed.
        """
        rows, blocks = len(tensors[0][HOISTED.gradient]), _blocks(steps.batch, len(tensors))
        for mine in tensors:
            counts = dict.fromkeys(self.source.befores, rows) | dict.fromkeys(self.source.sums, blocks)
            columns, like = self.source.columns, mine[HOISTED.gradient]
            mine |= {argument: pages.empty(count, columns[argument], like) for argument, count in counts.items()}
        self._call(self._backward, self.source.backward_arguments, tensors, steps, row_tables(steps, rows), reverse)

    def _call(
        self, function: Any, given: list[Argument], tensors: list[Tensors], steps: StepCounts, tables: Tables,
        reverse: list[bool],
    ) -> None:  # fmt: skip
        # Weights are packed from any layout; everything else must be contiguous.
        alive = [
            {
                argument: mine[argument] if argument.is_weight else mine[argument].contiguous()
                for argument in given
                if argument in mine
            }
            for mine in tensors
        ]
        pointers = [own[argument].data_ptr() if argument in own else 0 for own in alive for argument in given]
        strides = [
            stride
            for own in alive
            for weight in self.weights
            for stride in (own[weight].stride() if weight in own else (0, 0))
        ]
        lengths = tensors[0][SOURCE_LENGTHS].contiguous() if self.attends else None
        call = RecurrenceCall(
            tensors=(ctypes.c_void_p * len(pointers))(*pointers), sizes=self._sizes,
            strides=(ctypes.c_long * (len(strides) + 1))(*strides), length=tables.lengths, order=tables.order,
            base=tables.base, capacity=tables.capacity, first=tables.first, room=tables.room,
            source_lengths=lengths, reverse=(ctypes.c_ubyte * len(reverse))(*reverse), directions=len(tensors),
            batch=steps.batch, blocks=_blocks(steps.batch, len(tensors)),
            source_steps=tensors[0][KEYS].size(1) if self.attends else 0,
        )  # fmt: skip
        if function(ctypes.byref(call), ctypes.c_long(torch.get_num_threads()), parallel()):
            raise MemoryError("a recurrence found no memory for its buffers: use a smaller batch or shorter rows")


def _blocks(batch: int, directions: int) -> int:
    """Into how many blocks rows are shared out. With two directions a thread may take one of them whole."""
    share = max(1, torch.get_num_threads() // directions)
    return max(1, min(batch, max(share, -(-batch // MAX_BLOCK_ROWS // share) * share)))


class Tables(NamedTuple):
    """Of each row (B,): its steps; which it is, the longest first; where its steps begin in buffers that only the
    engine reads, how many fit there; the same of buffers of all steps."""

    lengths: Tensor
    order: Tensor
    base: Tensor
    capacity: Tensor
    first: Tensor
    room: Tensor


def row_tables(steps: StepCounts, rows: int) -> Tables:
    """rows: steps of the buffers that only the engine reads, all of them or the real ones only."""
    if steps.lengths is None:
        return _full_tables(steps.batch, steps.time)
    lengths = steps.lengths.contiguous()
    order = lengths.argsort(descending=True)
    if steps.first is None:
        first, room = _full_tables(steps.batch, steps.time)[-2:]
    else:
        first = steps.first.contiguous()
        room = first.diff(append=first.new_tensor([steps.all_steps]))
    if rows < steps.all_steps:
        return Tables(lengths, order, lengths.cumsum(0) - lengths, lengths, first, room)
    return Tables(lengths, order, first, room, first, room)


@lru_cache(64)
def _full_tables(batch: int, time: int) -> Tables:
    steps, rows = torch.full((batch,), time, device="cpu"), torch.arange(batch, device="cpu")
    return Tables(steps, rows, rows * time, steps, rows * time, steps)
