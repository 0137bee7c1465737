"""The plan on a GPU: matrix products and generated Triton kernels, some steps at a time, in CUDA graphs; or, where a
step has one product and that is faster, all steps in one persistent kernel (persistent.py).

A graph holds a chunk of 1, 2, 4, ... steps; any number of steps is a few of them, largest first. What a graph touches
directly stays where it is from call to call; everything else it finds through the table of addresses. The directions
of a layer are rows of the same kernels and products.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor

from weft.nn.kernels import power_of_two
from weft.nn.native import pages
from weft.nn.recurrent.engine.argument import KEYS, SAVED, Argument, Kind
from weft.nn.recurrent.engine.attend_cuda import BACKWARD, FORWARD
from weft.nn.recurrent.engine.capture import run_apart
from weft.nn.recurrent.engine.generated import load_generated
from weft.nn.recurrent.engine.persistent_choice import PersistentChoice
from weft.nn.recurrent.engine.precision import product_precision
from weft.nn.recurrent.engine.triton_kernel import HEADER
from weft.nn.recurrent.engine.triton_source import TritonSource
from weft.nn.recurrent.engine.triton_stage import Stage

if TYPE_CHECKING:
    from weft.nn.recurrent.engine.plan import Kernels, StepCounts, Tensors

MAX_CHUNK_STEPS: Final = 64
"""Steps of the longest chunk: many hide the gaps between graphs, few let the GPU begin while the next is queued."""

MAX_SESSIONS: Final = 64
"""Sets of fixed buffers and graphs that are kept, for batches of different sizes."""

ZERO_PAST_END: Final = {
    "forward": frozenset((Kind.HISTORY, Kind.EMITTED)),
    "backward": frozenset((Kind.GRAD_HOISTED, Kind.GRAD_PRODUCT, Kind.LEFTS, Kind.GRAD_VECTOR)),
}
"""What is read again past the end of a row, where it must be zero."""

START, HISTORY = Argument(Kind.START, 0), Argument(Kind.HISTORY, 0)

READ_AS: Final = {Kind.AFTER: Kind.STATE, Kind.CARRY: Kind.BEHIND}
"""States and their gradients stand in two buffers each: one is read under the second kind, the other is written under
the first, and the next step changes them over."""


class CUDABackend:
    """The kernels of one plan, and the graphs made of them."""

    def __init__(self, plan: Kernels) -> None:
        self.plan = plan
        self.source = TritonSource(plan.program, plan.adjoint, plan.layout, plan.biased)
        self.module = load_generated(self.source.text)
        self.persistent = PersistentChoice(plan)
        self._lock = threading.Lock()
        self._sessions: OrderedDict[object, _Session] = OrderedDict()

    def forward(self, tensors: list[Tensors], steps: StepCounts, reverse: list[bool]) -> None:
        """Fill histories, emitted values, last states and, where there are buffers for it, what is saved."""
        keep = all(Argument(Kind.KEPT, k) in tensors[0] for k in self.plan.layout.overwritten)
        keep = keep and (SAVED in tensors[0] or not self.plan.layout.saved)
        self._run("forward", tensors, steps, reverse, keep=keep)

    def backward(self, tensors: list[Tensors], steps: StepCounts, reverse: list[bool]) -> None:
        """Fill the gradients of hoisted values, products, vectors and first states, and the left sides.

        Adds to the tensors: the gradients of vectors, of all steps, and of the vectors of scores, of each row.
        """
        program = self.plan.program
        for mine in tensors:
            like = mine[Argument(Kind.GRAD_HOISTED, 0)]
            for number, expr in enumerate(self.plan.layout.vectors):
                mine[Argument(Kind.GRAD_VECTOR, number)] = pages.empty(like.size(0), expr.width, like)
            for number in program.additive:
                sums = like.new_zeros(steps.batch, program.products[number].depth, dtype=torch.float32)
                mine[Argument(Kind.GRAD_OVER, number)] = sums
        self._run("backward", tensors, steps, reverse, keep=True)

    def _run(self, kind: str, tensors: list[Tensors], steps: StepCounts, reverse: list[bool], *, keep: bool) -> None:
        def graphs(tensors: list[Tensors], steps: StepCounts, reverse: list[bool]) -> None:
            session = self._session(kind, tensors, steps)
            session.start(tensors, steps, reverse, keep=keep)
            session.run(steps.time)
            session.finish()

        with self._lock:  # a second thread must not change the table before this one's graphs are queued
            if not self.persistent.run(tensors, steps, reverse, graphs, backward=kind == "backward", keep=keep):
                graphs(tensors, steps, reverse)

    def _session(self, kind: str, tensors: list[Tensors], steps: StepCounts) -> _Session:
        like = tensors[0][HISTORY]
        stream = torch.cuda.current_stream(like.device).cuda_stream if like.is_cuda else 0
        batch = _rounded(steps.batch) if steps.first is None else _rounded_segments(steps.batch)
        starts = tensors[0][START].dtype
        key = (
            kind,
            len(tensors),
            batch,
            like.dtype,
            starts,
            like.device,
            steps.lengths is None,
            steps.first is None,
            stream,
            SAVED in tensors[0],
            like.dtype == torch.float32 and product_precision(),  # a graph keeps the precision it was captured with
        )
        if key not in self._sessions:
            self._sessions[key] = _Session(self, kind, tensors, batch, steps)
            if len(self._sessions) > MAX_SESSIONS:
                self._sessions.popitem(last=False)
        self._sessions.move_to_end(key)
        return self._sessions[key]


class _Session:
    """Fixed buffers and graphs for one number of rows, one type, one stream, forward or backward."""

    def __init__(self, backend: CUDABackend, kind: str, tensors: list[Tensors], batch: int, steps: StepCounts) -> None:
        self.source, self.module, self.kind = backend.source, backend.module, kind
        self.batch, self.directions = batch, len(tensors)
        self.like, self.starts = tensors[0][HISTORY], tensors[0][START].dtype
        self.lengths, self.segments = steps.lengths is not None, steps.first is not None
        self.groups: list[Stage] = self.source.stages if kind == "forward" else self.source.back
        size = HEADER + self.directions * (1 + len(self.source.table))
        with torch.inference_mode(False):  # they will also be written outside of it
            self.like = self.like.new_empty(0)
            self.table = torch.zeros(size, dtype=torch.int64, device=self.like.device)
            self.row_lengths = torch.zeros(self.batch, dtype=torch.int64, device=self.like.device)
            self.row_firsts = torch.zeros_like(self.row_lengths)
            self.buffers = self._make_buffers()
        self.graphs: dict[object, torch.cuda.CUDAGraph] = {}
        self.keep, self.warm = True, False
        self.alive: list[Tensor] = []

    def start(self, tensors: list[Tensors], steps: StepCounts, reverse: list[bool], *, keep: bool) -> None:
        """Take this call's addresses and weights."""
        self.keep = keep
        source_steps = tensors[0][KEYS].size(1) if self.source.program.attends else 0
        entries = [steps.batch, steps.time, 0 if self.kind == "forward" else steps.time - 1, source_steps]
        for mine, backwards in zip(tensors, reverse, strict=True):
            entries += [int(backwards), *(self._entry(mine, argument) for argument in self.source.table)]
        if not self.warm:
            self._warm_up()
        # From pinned memory, or the copy would wait for everything that the GPU still has to do.
        self.table.copy_(torch.tensor(entries, pin_memory=self.like.is_cuda), non_blocking=True)
        if steps.lengths is not None:
            self.row_lengths[steps.batch :].zero_()
            self.row_lengths[: steps.batch].copy_(steps.lengths)
        if steps.first is not None:
            self.row_firsts[: steps.batch].copy_(steps.first)
            for mine in tensors:  # the kernels write the real steps alone
                for argument, tensor in mine.items():
                    if argument.kind in ZERO_PAST_END[self.kind]:
                        tensor.zero_()
        for number, group in enumerate(self.groups, 1):
            if not group.products:
                continue
            weight = self._buffer(Kind.WEIGHT, number)
            for direction, mine in enumerate(tensors):
                for product in group.products:
                    part = mine[Argument(Kind.WEIGHT, product)]
                    down, across = group.result_at(product), group.left_at(product)
                    place = weight[direction, down : down + part.shape[1], across : across + part.shape[0]]
                    place.copy_(part.t())

    def run(self, steps: int) -> None:
        """All steps, in chunks; an odd one comes last, so that every chunk begins with the same of two buffers."""
        done = 0
        while done < steps:
            count = min(MAX_CHUNK_STEPS, 1 << ((steps - done).bit_length() - 1))
            self._chunk(count, first=done == 0, last=done + count == steps)
            done += count

    def finish(self) -> None:
        """Everything is queued: what the call used may be given back, and is free for what is queued after it."""
        self.alive = []

    def launch(self, name: str, parity: int, step: int) -> None:
        """One kernel; step counts from the first of its chunk."""
        widest = self.source.widest[name]
        block = min(128, power_of_two(widest, least=16))
        # Kernels read the batch from the grid: as a constant of theirs it would have them compiled for every size.
        grid = (self.batch, -(-widest // block), self.directions)
        fixed = [self._buffer(*argument, parity=parity) for argument in self.source.arguments[name]]
        getattr(self.module, name)[grid](
            self.table, self.row_lengths, self.row_firsts, *fixed, step, LENGTHS=self.lengths,
            SEGMENTS=self.segments, KEEP=self.keep, PREFETCH=self.like.is_cuda, DTYPE=_triton_type(self.like.dtype),
            START=_triton_type(self.starts), BLOCK=block, num_warps=max(1, block // 32),
        )  # fmt: skip

    def _attend(self, number: int, step: int) -> None:
        """A product that attends."""
        name, *fixed = FORWARD if self.kind == "forward" else BACKWARD
        self.source.attending.launch(
            number, name, (self.batch, self.directions), self.table, self.row_lengths,
            *(self._buffer(kind, number) for kind in fixed), step, LENGTHS=self.lengths,
            DTYPE=_triton_type(self.like.dtype),
        )  # fmt: skip

    def _chunk(self, count: int, *, first: bool, last: bool) -> None:
        if not self.like.is_cuda:  # Triton's interpreter
            self._steps(count, first=first, last=last)
            return
        key = (count, first, last, self.keep)
        if key not in self.graphs:
            self.graphs[key] = self._capture(count, first=first, last=last)
        self.graphs[key].replay()

    def _capture(self, count: int, *, first: bool, last: bool) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()

        def capture() -> None:
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                self._steps(count, first=first, last=last)
            finally:
                graph.capture_end()

        run_apart(self.like.device, capture)
        return graph

    def _warm_up(self) -> None:
        """Compile the kernels and let the libraries get their workspace before anything is captured; of no rows."""
        if self.like.is_cuda:
            self.table.zero_()
            run_apart(self.like.device, lambda: self._steps(2, first=True, last=True))
        self.warm = True

    def _steps(self, count: int, *, first: bool, last: bool) -> None:
        forward = self.kind == "forward"
        if first:
            self.launch("begin" if forward else "begin_backward", 0, 0)
        for number in range(count):
            if forward:
                self._forward_step(number % 2, number)
            else:
                self._backward_step(number % 2, -number)
        if last:
            self.launch("end" if forward else "finish", count % 2, 0)
        else:
            self.table[2:3].add_(count if forward else -count)

    def _forward_step(self, parity: int, step: int) -> None:
        for stage in range(self.source.program.stages + 1):
            if stage and self.groups[stage - 1].products:
                weight = self._buffer(Kind.WEIGHT, stage).transpose(1, 2)
                self._multiply(self._buffer(Kind.LEFT, stage), weight, self._buffer(Kind.PRODUCT, stage))
            for number in self.source.attends[stage - 1] if stage else ():
                self._attend(number, step)
            if stage in self.source.forward_stages:
                self.launch(f"forward{stage}", parity, step)

    def _backward_step(self, parity: int, step: int) -> None:
        for stage in range(self.source.adjoint.last + 1):
            if stage and self.groups[stage - 1].products:
                weight, parts = self._buffer(Kind.WEIGHT, stage), self.groups[stage - 1].parts
                weight = weight.view(self.directions * parts, -1, weight.size(2))
                self._multiply(self._buffer(Kind.GRAD_PRODUCT, stage), weight, self._buffer(Kind.GRAD_LEFT, stage))
            for number in self.source.attends_back[stage - 1] if stage else ():
                self._attend(number, step)
            if stage in self.source.backward_stages:
                self.launch(f"backward{stage}", parity, step)

    def _multiply(self, left: Tensor, weight: Tensor, result: Tensor) -> None:
        """Rows (M * B, k) by matrices (M, k, n) -> rows (M * B, n)."""
        if weight.size(0) == 1:
            torch.mm(left, weight[0], out=result)
        else:
            shape = (weight.size(0), self.batch, -1)
            torch.bmm(left.view(shape), weight, out=result.view(shape))

    def _make_buffers(self) -> dict[Argument, tuple[Tensor, ...]]:
        """The fixed buffers: two of each state or of its gradient, one of everything else. Numbers of weights, left
        sides and products are those of stages."""
        rows, program, like = self.directions * self.batch, self.source.program, self.like
        forward = self.kind == "forward"
        buffers: dict[Argument, tuple[Tensor, ...]] = {}
        for number, width in enumerate(program.state):
            two = [like.new_zeros(rows, width, dtype=torch.float32) for _ in range(2)]
            buffers[Argument(Kind.STATE if forward else Kind.BEHIND, number)] = tuple(two)
        for number in program.attends:
            product = program.products[number]
            kinds = FORWARD[1:] if forward else BACKWARD[:0:-1]
            for kind, width in zip(kinds, (product.depth, product.width), strict=True):
                buffers[Argument(kind, number)] = (like.new_zeros(rows, width),)
        for number, group in enumerate(self.groups, 1):
            if not group.products:
                continue
            made = {Kind.WEIGHT: like.new_zeros(self.directions, group.width, group.depth)}
            if forward:
                made[Kind.LEFT] = like.new_zeros(rows, group.depth)
                made[Kind.PRODUCT] = like.new_zeros(rows, group.width)
            else:
                made[Kind.GRAD_LEFT] = like.new_zeros(rows * group.parts, group.depth)
                made[Kind.GRAD_PRODUCT] = like.new_zeros(rows * group.parts, group.width // group.parts)
            buffers |= {Argument(kind, number): (tensor,) for kind, tensor in made.items()}
        return buffers

    def _buffer(self, kind: Kind, number: int, *, parity: int = 0) -> Tensor:
        """A fixed buffer; of two, the one that a step of this parity reads, or writes."""
        if kind in READ_AS:
            return self.buffers[Argument(READ_AS[kind], number)][1 - parity]
        found = self.buffers[Argument(kind, number)]
        return found[parity] if len(found) == 2 else found[0]

    def _entry(self, tensors: Tensors, argument: Argument) -> int:
        """The address of a tensor, as contiguous numbers of the type that the kernels expect."""
        tensor = tensors.get(argument)
        if tensor is not None and argument.is_float32:
            tensor = tensor.to(torch.float32)
        return self._address(tensor)

    def _address(self, tensor: Tensor | None) -> int:
        if tensor is None:
            return 0
        tensor = tensor.contiguous()
        self.alive.append(tensor)  # a copy must last until the kernels have been queued
        return tensor.data_ptr()


def _rounded(batch: int) -> int:
    """Batches of nearly the same size share their graphs."""
    unit = 8 if batch <= 64 else 16 if batch <= 256 else 32
    return -(-batch // unit) * unit


def _rounded_segments(count: int) -> int:
    """The number of segments is another in every batch, so that of their rows has a few sizes only."""
    unit = max(8, power_of_two(count, least=16) // 8)
    return -(-count // unit) * unit


def _triton_type(dtype: torch.dtype) -> Any:
    import triton.language as tl  # type: ignore[import-not-found, import-untyped, unused-ignore]

    return {torch.float32: tl.float32, torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}[dtype]
