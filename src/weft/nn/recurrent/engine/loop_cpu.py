"""A step without products on a CPU: the loops and scans of loop_source.py, compiled and called."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Final

import torch

from weft.nn.native import pages
from weft.nn.native.compiler import compile_library
from weft.nn.native.threads import parallel
from weft.nn.recurrent.engine.argument import Argument, Kind
from weft.nn.recurrent.engine.call import LoopCall
from weft.nn.recurrent.engine.chunks import CPU_SCAN_COST, Chunks, Machine, Run, choose_chunks
from weft.nn.recurrent.engine.cpu import row_tables
from weft.nn.recurrent.engine.enrolled import note_pass
from weft.nn.recurrent.engine.loop_source import LoopSource, loop_arguments, loop_sums, scan_arguments

if TYPE_CHECKING:
    from weft.nn.recurrent.engine.plan import Kernels, StepCounts, Tensors

HOISTED: Final = Argument(Kind.HOISTED, 0)

MAX_COLUMNS: Final = 512
"""COLUMNS of loop.c."""

MIN_COLUMNS: Final = 64
"""Columns of a task at least, unless the lane has fewer: a few cache lines of each buffer."""

TASKS_FOR_EACH: Final = 4
"""Tasks for each thread, so that none waits long for the last."""


class CPULoop:
    """The compiled loops of one plan."""

    def __init__(self, plan: Kernels) -> None:
        self.plan = plan
        self.source = LoopSource(plan)
        library = compile_library(self.source.text)
        LoopCall.check_layout(library)
        self._functions = {False: library.forward, True: library.backward}
        self._given = {backward: loop_arguments(plan, backward=backward) for backward in (False, True)}
        self._sizes = (ctypes.c_long * (len(self.source.sizes) + 1))(*self.source.sizes)
        self._widths = [lane.width for lane in plan.lanes or []]

    def forward(self, tensors: list[Tensors], steps: StepCounts, reverse: list[bool]) -> None:
        """Fill histories, emitted values and last states."""
        self._run(tensors, steps, reverse, self._chunks(tensors, steps), backward=False)

    def backward(self, tensors: list[Tensors], steps: StepCounts, reverse: list[bool]) -> None:
        """Fill the gradients of hoisted values and first states. Adds to the tensors what each chunk has summed."""
        chunks = self._chunks(tensors, steps)
        for mine in tensors:
            like = mine[HOISTED.gradient]
            for argument in loop_sums(self.plan):
                mine[argument] = pages.empty(steps.batch * chunks.number, self.source.columns[argument], like)
        self._run(tensors, steps, reverse, chunks, backward=True)

    def _chunks(self, tensors: list[Tensors], steps: StepCounts) -> Chunks:
        if self.plan.scans is None:
            return Chunks(1, steps.time)
        tasks = len(tensors) * steps.batch * sum(-(-width // MIN_COLUMNS) for width in self._widths)
        threads = torch.get_num_threads()
        chunks = choose_chunks(self.plan.method, tasks, steps.time, Machine(threads, TASKS_FOR_EACH, CPU_SCAN_COST))
        note_pass(steps.layer, "last pass", Run(steps.batch, steps.time, chunks))
        return chunks

    def _run(
        self, tensors: list[Tensors], steps: StepCounts, reverse: list[bool], chunks: Chunks, *, backward: bool
    ) -> None:
        given = self._given[backward]
        alive = [{argument: mine[argument].contiguous() for argument in given if argument in mine} for mine in tensors]
        if chunks.number > 1:
            for own in alive:
                for argument in scan_arguments(self.plan):
                    own[argument] = pages.empty(
                        steps.batch * chunks.number, self.source.columns[argument], own[HOISTED]
                    )
        pointers = [own[argument].data_ptr() if argument in own else 0 for own in alive for argument in given]
        tables = row_tables(steps, len(tensors[0][HOISTED]))
        call = LoopCall(
            tensors=(ctypes.c_void_p * len(pointers))(*pointers), sizes=self._sizes, length=tables.lengths,
            order=tables.order, base=tables.base, capacity=tables.capacity, first=tables.first, room=tables.room,
            reverse=(ctypes.c_ubyte * len(reverse))(*reverse), directions=len(tensors), batch=steps.batch,
            columns=self._columns(len(tensors) * steps.batch * chunks.number),
            chunks=chunks.number, steps=chunks.steps,
        )  # fmt: skip
        function: Any = self._functions[backward]
        function(ctypes.byref(call), ctypes.c_long(torch.get_num_threads()), parallel())

    def _columns(self, rows: int) -> int:
        """Columns of a task: few enough to give every thread some tasks, and so many that a task reads whole lines."""
        blocks = -(-torch.get_num_threads() * TASKS_FOR_EACH // max(1, rows))
        share = -(-max(self._widths) // blocks)
        return min(MAX_COLUMNS, max(MIN_COLUMNS, -(-share // MIN_COLUMNS) * MIN_COLUMNS))
