"""The plan on a CPU: the generated C, compiled for this machine, called with the addresses of the tensors."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from weft.nn.native import pages
from weft.nn.native.compiler import compile_library
from weft.nn.native.threads import parallel
from weft.nn.recurrent.engine.c_source import CSource
from weft.nn.recurrent.engine.call import RecurrenceCall

if TYPE_CHECKING:
    from weft.nn.recurrent.engine.plan import Kernels, Steps

MOST_ROWS = 64
"""Rows of a block: enough to use each part of the weights many times, few enough to stay in a core's cache."""


class CPUBackend:
    """The compiled loop of one plan."""

    def __init__(self, plan: Kernels) -> None:
        self.products = len(plan.program.products)
        self.source = CSource(plan.program, plan.adjoint, plan.layout, plan.biased)
        library = compile_library(self.source.text)
        RecurrenceCall.check_layout(library)
        self._forward, self._backward = library.forward, library.backward
        self._sizes = (ctypes.c_long * (len(self.source.sizes) + 1))(*self.source.sizes)

    def forward(self, tensors: list[dict[str, Tensor]], steps: Steps, reverse: list[bool]) -> None:
        """Fill histories, emitted values, last states and, where there is room for it, what is saved."""
        tables = _tables(steps, len(tensors[0]["hoisted0"]))
        self._call(self._forward, self.source.forward_slots, tensors, steps, tables, reverse)

    def backward(self, tensors: list[dict[str, Tensor]], steps: Steps, reverse: list[bool]) -> None:
        """Fill the gradients of hoisted values, products, vectors and first states, and the left sides.

        Adds to the tensors: the states before each step that are left sides, and what each block has summed.
        """
        rows, blocks = len(tensors[0]["grad_hoisted0"]), _blocks(steps.batch, len(tensors))
        for mine in tensors:
            room = dict.fromkeys(self.source.befores, rows) | dict.fromkeys(self.source.sums, blocks)
            columns, like = self.source.columns, mine["grad_hoisted0"]
            mine |= {slot: pages.empty(count, columns[slot], like) for slot, count in room.items()}
        self._call(self._backward, self.source.backward_slots, tensors, steps, _tables(steps, rows), reverse)

    def _call(
        self, function: Any, slots: list[str], tensors: list[dict[str, Tensor]], steps: Steps, tables: Tables,
        reverse: list[bool],
    ) -> None:  # fmt: skip
        # Weights are packed from any layout; everything else must be contiguous.
        alive = [
            {
                slot: mine[slot] if slot.startswith("weight") else mine[slot].contiguous()
                for slot in slots
                if slot in mine
            }
            for mine in tensors
        ]
        pointers = [own[slot].data_ptr() if slot in own else 0 for own in alive for slot in slots]
        strides = [stride for own in alive for p in range(self.products) for stride in own[f"weight{p}"].stride()]
        call = RecurrenceCall(
            tensors=(ctypes.c_void_p * len(pointers))(*pointers), sizes=self._sizes,
            strides=(ctypes.c_long * (len(strides) + 1))(*strides), length=tables.lengths, order=tables.order,
            base=tables.base, capacity=tables.capacity, reverse=(ctypes.c_ubyte * len(reverse))(*reverse),
            directions=len(tensors), batch=steps.batch, time=steps.time, blocks=_blocks(steps.batch, len(tensors)),
        )  # fmt: skip
        if function(ctypes.byref(call), ctypes.c_long(torch.get_num_threads()), parallel()):
            raise MemoryError("a recurrence found no memory for its buffers: use a smaller batch or shorter rows")


def _blocks(batch: int, directions: int) -> int:
    """Into how many blocks rows are shared out. With two directions a thread may take one of them whole."""
    share = max(1, torch.get_num_threads() // directions)
    return max(1, min(batch, max(share, -(-batch // MOST_ROWS // share) * share)))


class Tables(NamedTuple):
    """Of each row of the batch (B,): its steps; which it is, the longest first; where its steps begin, how many fit."""

    lengths: Tensor
    order: Tensor
    base: Tensor
    capacity: Tensor


def _tables(steps: Steps, rows: int) -> Tables:
    """rows: what buffers that are not seen outside have room for, all B * T steps or the real ones only."""
    full = _full_tables(steps.batch, steps.time)
    if steps.lengths is None:
        return full
    lengths = steps.lengths.contiguous()
    order = lengths.argsort(descending=True)
    if rows < steps.batch * steps.time:
        return Tables(lengths, order, lengths.cumsum(0) - lengths, lengths)
    return Tables(lengths, order, full.base, full.capacity)


@lru_cache(64)
def _full_tables(batch: int, time: int) -> Tables:
    steps, rows = torch.full((batch,), time, device="cpu"), torch.arange(batch, device="cpu")
    return Tables(steps, rows, rows * time, steps)
