"""A step without products on a GPU: the loops and scans of loop_triton_source.py, compiled and launched.

A pass is one kernel for each lane, or where time is cut into chunks three. The directions of a layer run in the same
launch.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Final

import torch
from torch import Tensor

from weft.nn.kernels import Launcher, power_of_two
from weft.nn.recurrent.engine.argument import Argument, Kind
from weft.nn.recurrent.engine.chunks import GPU_SCAN_COST, Chunks, Machine, Run, choose_chunks
from weft.nn.recurrent.engine.enrolled import note_pass
from weft.nn.recurrent.engine.generated import load_generated
from weft.nn.recurrent.engine.loop_source import loop_sums, scan_arguments
from weft.nn.recurrent.engine.loop_triton_source import LoopKernel, TritonLoopSource

if TYPE_CHECKING:
    from weft.nn.recurrent.engine.plan import Kernels, StepCounts, Tensors

START: Final = Argument(Kind.START, 0)

WARP_COLUMNS: Final = 32
"""Columns of a program, which is one warp: the smaller it is, the more of them hide each other's latency."""

SCHEDULERS: Final = 4
"""Warps of which a multiprocessor issues an instruction in the same cycle."""

WARPS_FOR_EACH: Final = 8
"""Warps for each scheduler, which issues those that do not wait for memory."""


class TritonLoop:
    """The compiled loops of one plan."""

    def __init__(self, plan: Kernels) -> None:
        self.plan = plan
        self.launcher = Launcher()
        self.sources: dict[int, tuple[TritonLoopSource, ModuleType]] = {}
        """By the number of directions."""

    def forward(self, tensors: list[Tensors], steps: StepCounts, reverse: list[bool]) -> None:
        """Fill histories, emitted values and last states."""
        self._run(tensors, steps, reverse, self._chunks(tensors, steps), backward=False)

    def backward(self, tensors: list[Tensors], steps: StepCounts, reverse: list[bool]) -> None:
        """Fill the gradients of hoisted values and first states. Adds to the tensors what each chunk has summed."""
        chunks = self._chunks(tensors, steps)
        source, _ = self._source(len(tensors))
        for mine in tensors:
            for argument in loop_sums(self.plan):
                rows = steps.batch * chunks.number
                mine[argument] = mine[START].new_empty(rows, source.columns[argument], dtype=torch.float32)
        self._run(tensors, steps, reverse, chunks, backward=True)

    def _source(self, directions: int) -> tuple[TritonLoopSource, ModuleType]:
        if directions not in self.sources:
            source = TritonLoopSource(self.plan, directions)
            self.sources[directions] = source, load_generated(source.text)
        return self.sources[directions]

    def _chunks(self, tensors: list[Tensors], steps: StepCounts) -> Chunks:
        if self.plan.scans is None:
            return Chunks(1, max(1, steps.time))
        widths = [lane.width for lane in self.plan.lanes or []]
        tasks = len(tensors) * steps.batch * sum(-(-width // WARP_COLUMNS) for width in widths)
        chunks = choose_chunks(self.plan.method, tasks, steps.time, _machine(tensors[0][START].device))
        note_pass(steps.layer, "last pass", Run(steps.batch, steps.time, chunks))
        return chunks

    def _run(
        self, tensors: list[Tensors], steps: StepCounts, reverse: list[bool], chunks: Chunks, *, backward: bool
    ) -> None:
        source, module = self._source(len(tensors))
        scanned = chunks.number > 1
        alive: list[Tensor] = []
        for mine in tensors:
            own = {argument: mine[argument].contiguous() for argument in source.given[backward] if argument in mine}
            for argument in scan_arguments(self.plan) if self.plan.scans is not None else ():
                own[argument] = own[START]  # a loop gets them too, and does not read them
                if scanned:
                    rows, width = steps.batch * chunks.number, source.columns[argument]
                    own[argument] = own[START].new_empty(rows, width, dtype=torch.float32)
            alive += [own[argument] for argument in source.given[backward]]
        # A kernel of equal rows reads neither table.
        lengths = alive[0] if steps.lengths is None else steps.lengths.contiguous()
        firsts = lengths if steps.first is None else steps.first.contiguous()
        counts = steps.batch, steps.time, steps.all_steps, chunks.number, chunks.steps
        options = {
            "ROWS": 0 if steps.lengths is None else 1 if steps.first is None else 2,
            "REVERSE": sum(backwards << d for d, backwards in enumerate(reverse)),
            "SCAN": scanned,
        }
        types = tuple(tensor.dtype for tensor in alive)
        wide = max(counts) >= 2**31
        with torch.cuda.device_of(alive[0]):  # type: ignore[no-untyped-call]
            for kernel in (source.scans[backward] if scanned else []) + source.loops[backward]:
                rows = steps.batch * (chunks.number if kernel.each_chunk else 1)
                grid, block = _grid(kernel, rows, len(tensors))
                key = kernel.name, len(tensors), types, wide, *options.values(), block, alive[0].device
                arguments = [*alive, lengths, firsts, *counts]
                self.launcher.launch(
                    getattr(module, kernel.name), grid, arguments, options | {"BLOCK": block}, warps=1, key=key
                )


def _grid(kernel: LoopKernel, rows: int, directions: int) -> tuple[tuple[int, int, int], int]:
    """Programs of a launch, and the columns of each."""
    block = min(WARP_COLUMNS, power_of_two(kernel.width, least=16))
    return (rows * -(-kernel.width // block), directions, 1), block


@cache
def _machine(device: torch.device) -> Machine:
    """The number of programs that a GPU runs at once; Triton's interpreter runs one program after another."""
    if device.type != "cuda":
        return Machine(1, 1, GPU_SCAN_COST)
    processors: int = torch.cuda.get_device_properties(device).multi_processor_count
    return Machine(processors * SCHEDULERS, WARPS_FOR_EACH, GPU_SCAN_COST)
