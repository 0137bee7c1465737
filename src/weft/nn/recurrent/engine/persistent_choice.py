"""The choice between persistent kernels and CUDA graphs: measured once for each number of rows, on made-up numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

import torch
from torch import Tensor

from weft.errors import Fault, counted
from weft.nn.kernels import HALF
from weft.nn.native import nvrtc
from weft.nn.recurrent.engine.argument import Argument, Kind
from weft.nn.recurrent.engine.enrolled import note_pass
from weft.nn.recurrent.engine.persistent import PersistentKernels
from weft.nn.recurrent.engine.persistent_plan import Unsuited
from weft.nn.recurrent.engine.persistent_source import Tiling

if TYPE_CHECKING:
    from weft.nn.recurrent.engine.plan import Kernels, StepCounts, Tensors

MEASURED_STEPS: Final = 64
"""Steps of a pass that is measured; shorter passes are left to graphs."""

MEASURED_TILINGS: Final = 4
MEASURED_PASSES: Final = 4

MIN_CAPABILITY: Final = (8, 0)
"""The oldest processors that multiply bf16."""

START, HISTORY = Argument(Kind.START, 0), Argument(Kind.HISTORY, 0)


class Choice(NamedTuple):
    """The tiling of the fastest persistent kernel, None where graphs are faster or there is no such kernel; the
    microseconds of a step of both, 0 where not measured."""

    tiling: Tiling | None
    persistent: float = 0.0
    graphs: float = 0.0

    def __str__(self) -> str:
        if not self.persistent:
            return "in CUDA graphs"
        if self.tiling is None:
            return f"in CUDA graphs ({self.graphs:.1f} µs a step; one persistent kernel {self.persistent:.1f})"
        units, rows = counted(self.tiling.units, "unit"), counted(self.tiling.rows, "row")
        blocks = f"blocks of {units} of {rows}"
        return f"in one persistent kernel, {blocks} ({self.persistent:.1f} µs a step; CUDA graphs {self.graphs:.1f})"


Run = Callable[[list["Tensors"], "StepCounts", list[bool]], None]


class PersistentChoice:
    """Runs the passes of a plan by persistent kernels where these are faster."""

    def __init__(self, plan: Kernels) -> None:
        self.plan = plan
        self.kernels: PersistentKernels | None = None
        self.reason = ""
        try:
            self.kernels = PersistentKernels(plan)
        except Unsuited as error:
            self.reason = str(error)
        self._choices: dict[object, Choice] = {}

    def run(
        self, tensors: list[Tensors], steps: StepCounts, reverse: list[bool], graphs: Run, *, backward: bool, keep: bool
    ) -> bool:
        """Run a pass, if a persistent kernel is the fastest; return whether it did."""
        name, sizes = (
            f"last {'backward' if backward else 'forward'} pass",
            f"{counted(steps.batch, 'row')} of {counted(steps.time, 'step')}",
        )
        if self.kernels is None:
            note_pass(steps.layer, name, f"{sizes} in CUDA graphs ({self.reason})")
            return False
        choice = self._choose(self.kernels, tensors, steps, reverse, graphs, backward=backward)
        note_pass(steps.layer, name, f"{sizes} {choice}")
        if choice.tiling is None:
            return False
        _run_one(self.kernels, tensors, steps, reverse, choice.tiling, backward=backward, keep=keep)
        return True

    def _choose(
        self, kernels: PersistentKernels, tensors: list[Tensors], steps: StepCounts, reverse: list[bool], graphs: Run,
        *, backward: bool,
    ) -> Choice:  # fmt: skip
        like = tensors[0][HISTORY]
        if not like.is_cuda or like.dtype not in HALF or steps.time < MEASURED_STEPS or not steps.batch:
            return Choice(None)
        start = tensors[0][START].dtype
        ragged = steps.lengths is not None
        key = (backward, len(tensors), -(-steps.batch // 8), like.dtype, start, like.device, ragged)
        if key not in self._choices:
            self._choices[key] = Choice(None)
            try:
                self._choices[key] = _measure(kernels, tensors, steps, reverse, graphs, backward=backward)
            except torch.OutOfMemoryError:  # no memory to measure in
                pass
            except (nvrtc.NoNVRTC, Fault) as error:
                self.kernels, self.reason = None, str(error)
        return self._choices[key]


def _run_one(
    kernels: PersistentKernels, tensors: list[Tensors], steps: StepCounts, reverse: list[bool], tiling: Tiling,
    *, backward: bool, keep: bool,
) -> None:  # fmt: skip
    if backward:
        kernels.backward(tensors, steps, reverse, tiling)
    else:
        kernels.forward(tensors, steps, reverse, tiling, keep=keep)


def _measure(
    kernels: PersistentKernels, tensors: list[Tensors], steps: StepCounts, reverse: list[bool], graphs: Run,
    *, backward: bool,
) -> Choice:  # fmt: skip
    """Time a short pass over random numbers, by graphs and by the most promising tilings."""
    like = tensors[0][HISTORY]
    properties = torch.cuda.get_device_properties(like.device)
    if (properties.major, properties.minor) < MIN_CAPABILITY:
        return Choice(None)
    shared_bytes = getattr(properties, "shared_memory_per_block_optin", nvrtc.FREE_SHARED_BYTES)
    tilings = kernels.tilings(
        steps.batch, len(tensors), properties.multi_processor_count, backward=backward, shared_bytes=shared_bytes
    )
    if not tilings:
        return Choice(None)
    tilings = tilings[:MEASURED_TILINGS]
    kernels.compile(tensors, tilings, backward=backward)
    made = [_made_up(mine, steps) for mine in tensors]
    short = _shortened(steps, like.device)

    def microseconds(run: Callable[[], None]) -> float:
        """Microseconds of a step."""
        run()
        times: list[float] = []
        for _ in range(MEASURED_PASSES):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
            begin.record()
            run()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end))
        return 1000 * min(times) / MEASURED_STEPS

    def by(tiling: Tiling) -> Callable[[], None]:
        return lambda: _run_one(kernels, made, short, reverse, tiling, backward=backward, keep=True)

    measured = {tiling: microseconds(by(tiling)) for tiling in tilings}
    best = min(measured, key=lambda tiling: measured[tiling])
    by_graphs = microseconds(lambda: graphs(made, short, reverse))
    return Choice(best if measured[best] < by_graphs else None, measured[best], by_graphs)


def _shortened(steps: StepCounts, device: torch.device) -> StepCounts:
    """As many rows of the measured number of steps, equally long."""
    rows, time = steps.batch, MEASURED_STEPS
    lengths = None if steps.lengths is None else torch.full((rows,), time, device=device)
    first = None if steps.first is None else torch.arange(rows, device=device) * time
    return steps._replace(time=time, lengths=lengths, first=first, positions=-1 if first is None else rows * time)


def _made_up(mine: Tensors, steps: StepCounts) -> Tensors:
    """Random numbers in the place of what each step has; what has the same memory has the same again."""
    rows = mine[HISTORY].size(0)
    made: dict[object, Tensor] = {}

    def place(tensor: Tensor) -> object:
        return tensor.data_ptr(), tensor.shape, tensor.stride()

    for tensor in mine.values():
        if place(tensor) in made:
            continue
        made[place(tensor)] = tensor.clone()
        if tensor.dim() == 2 and tensor.size(0) == rows:
            numbers = torch.randn(steps.batch * MEASURED_STEPS, tensor.size(1), device=tensor.device)
            made[place(tensor)] = numbers.to(tensor.dtype)
    return {argument: made[place(tensor)] for argument, tensor in mine.items()}
