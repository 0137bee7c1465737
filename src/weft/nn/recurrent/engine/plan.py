"""A plan: everything the engine knows about a cell, from its trace to its buffers."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from weft.nn.recurrent.cell import Cell
from weft.nn.recurrent.engine.adjoint import Adjoint, derive
from weft.nn.recurrent.engine.argument import KEYS, SAVED, SOURCE_LENGTHS, VALUES, Argument, Kind, arguments
from weft.nn.recurrent.engine.chunks import Method
from weft.nn.recurrent.engine.enrolled import NO_LAYER
from weft.nn.recurrent.engine.expr import width_of
from weft.nn.recurrent.engine.lanes import Lane, find_lanes
from weft.nn.recurrent.engine.layout import BufferLayout, lay_out
from weft.nn.recurrent.engine.linear import Scan, StepClass, find_scan
from weft.nn.recurrent.engine.program import Program, lower
from weft.nn.recurrent.engine.rewrite import rewrite
from weft.nn.recurrent.engine.split import Split, split
from weft.nn.recurrent.engine.trace import Trace, Untraceable, trace

NOTHING, IN_PLACE, COPY = "nothing", "in_place", "copy"
"""Where the forward pass keeps values for the backward pass: nowhere, over the hoisted values, or in new buffers.

Writing over an input saves memory, but is not allowed under a compiler that reorders operators.
"""


FORCED: tuple[Method, ...] = ("loop", "scan")
"""The methods that a person may force."""


class StepCounts(NamedTuple):
    """How many steps each row has, its own of `lengths`, else all T of `time`; and where they stand.

    Row b begins at b * time in a buffer of all steps, or where there is `first` (B,) at first[b]. Then rows are
    segments of the batch's rows, cut at resets: one begins where the one before it ends, or after the padding behind
    it, so what lies past a row's end may be the next row's, and only the real steps may be written.
    """

    batch: int
    time: int
    lengths: Tensor | None
    first: Tensor | None = None
    positions: int = -1
    """Steps of a buffer of all steps, padding too, where there is `first`."""
    layer: int = NO_LAYER
    """The number of the layer that runs."""

    @property
    def all_steps(self) -> int:
        """Steps of a buffer of all steps, padding too."""
        return self.batch * self.time if self.first is None else self.positions

    def base(self, device: torch.device) -> Tensor:
        """The first step of each (B,), in a buffer of all steps."""
        return torch.arange(self.batch, device=device) * self.time if self.first is None else self.first


Tensors = dict[Argument, Tensor]
"""The tensors of one direction."""


class Backend(Protocol):
    """Runs the loop over time: fills the tensors of each direction."""

    def forward(self, tensors: list[Tensors], steps: StepCounts, reverse: list[bool]) -> None: ...

    def backward(self, tensors: list[Tensors], steps: StepCounts, reverse: list[bool]) -> None: ...


@dataclass(frozen=True, eq=False)
class Kernels:
    """The body of the loop in a form that kernels can be made from, and the arguments of these."""

    number: int
    program: Program
    adjoint: Adjoint
    layout: BufferLayout
    biased: tuple[int, ...]
    """The hoisted values that come without their bias, which the kernels add."""
    lanes: list[Lane] | None = None
    """The columns of a step without products, which the kernels take through all of time by themselves."""
    scans: list[Scan] | None = None
    """How each lane is computed in parallel over time, where all are linear."""
    method: Method = "auto"
    """Whether they are computed so."""

    @property
    def step_class(self) -> StepClass:
        """How a step depends on its state."""
        if self.program.products:
            return StepClass.PRODUCT
        return StepClass.ELEMENTWISE if self.scans is None else StepClass.LINEAR

    @cached_property
    def cpu(self) -> Backend:
        """Compiled on first use; raises NoCompiler."""
        if self.lanes is not None:
            from weft.nn.recurrent.engine.loop_cpu import CPULoop

            return CPULoop(self)
        from weft.nn.recurrent.engine.cpu import CPUBackend

        return CPUBackend(self)

    @cached_property
    def cuda(self) -> Backend:
        """Generated on first use; raises ImportError without Triton."""
        if self.lanes is not None:
            from weft.nn.recurrent.engine.loop_cuda import TritonLoop

            return TritonLoop(self)
        from weft.nn.recurrent.engine.cuda import CUDABackend

        return CUDABackend(self)

    def backend(self, like: Tensor) -> Backend:
        return self.cpu if like.device.type == "cpu" else self.cuda

    @cached_property
    def inputs(self) -> list[Argument]:
        """The inputs of one direction."""
        program = self.program
        constants = {constant for _, _, constant in self._numbered_constants}
        return [
            *arguments(Kind.HOISTED, len(program.hoisted)),
            *arguments(Kind.START, len(program.state)),
            *arguments(Kind.CONSTANT, max(constants, default=-1) + 1),
            *(Argument(Kind.SHIFT, number) for number in self.biased),
            *((KEYS, VALUES, SOURCE_LENGTHS) if program.attends else ()),
        ]

    @cached_property
    def emitted(self) -> list[Argument]:
        """The output that holds each emitted value."""
        states, count = self.layout.history_of, len(self.program.emitted)
        return [Argument(Kind.HISTORY, states[k]) if k in states else Argument(Kind.EMITTED, k) for k in range(count)]

    @cached_property
    def finals(self) -> list[Argument]:
        """The last states."""
        return arguments(Kind.FINAL, len(self.program.state))

    @cached_property
    def gradient_sizes(self) -> dict[Argument, int]:
        """The outputs whose gradients count, with their columns: emitted values, then last states."""
        rows = zip(self.emitted, self.program.emitted, strict=True)
        finals = zip(self.finals, self.program.state, strict=True)
        return {argument: width_of(row) for argument, row in rows} | dict(finals)

    @cached_property
    def kept(self) -> list[Argument]:
        """Tensors that the backward pass of one direction reads."""
        kept = arguments(Kind.HISTORY, len(self.program.state))
        kept += [SAVED] if self.layout.saved else []
        kept += [Argument(Kind.KEPT, number) for number in self.layout.overwritten]
        kept += [] if self.lanes is None else arguments(Kind.HOISTED, len(self.program.hoisted))
        kept += self.attention
        return kept + self.inputs[len(self.program.hoisted) :]

    @cached_property
    def attention(self) -> list[Argument]:
        """The weights over the source of each product that attends."""
        return [Argument(Kind.ATTENTION, number) for number in self.program.attends]

    def output_sizes(self, keep: str) -> dict[Argument, int]:
        """Outputs of one direction with their columns; all are (N, n) but the last states, which are (B, n). Those of
        attention are as many as the source is long, here -1."""
        return self._output_sizes[keep]

    @cached_property
    def _output_sizes(self) -> dict[str, dict[Argument, int]]:
        program, layout = self.program, self.layout
        sizes = {Argument(Kind.HISTORY, number): width for number, width in enumerate(program.state)}
        sizes |= {argument: width for argument, width in self.gradient_sizes.items() if argument not in sizes}
        sizes |= dict.fromkeys(self.attention, -1)
        kept = sizes | ({SAVED: layout.saved} if layout.saved else {})
        copied = {Argument(Kind.KEPT, number): program.hoisted[number] for number in layout.overwritten}
        return {NOTHING: sizes, IN_PLACE: kept, COPY: kept | copied}

    @cached_property
    def results(self) -> dict[str, tuple[list[list[int]], int]]:
        """By what is kept: where emitted values, last states, histories and attention stand among the outputs of a
        direction, and how many outputs there are. Made with the plan, so torch.compile meets nothing but numbers."""
        wanted = self.emitted, self.finals, arguments(Kind.HISTORY, len(self.program.state)), self.attention
        found = {}
        for keep, sizes in self._output_sizes.items():
            order = list(sizes)
            places = [list(map(order.index, some)) for some in wanted]
            found[keep] = places, len(order)
        return found

    def take_inputs(self, tensors: list[Tensor]) -> list[Tensors]:
        """The inputs of each direction; products and vectors find their constants under their own arguments too."""
        return [self._with_constants(named) for named in _by_direction(self.inputs, tensors)]

    def take_kept(self, tensors: list[Tensor]) -> list[Tensors]:
        """The tensors that were kept, of each direction, likewise."""
        return [self._with_constants(named) for named in _by_direction(self.kept, tensors)]

    def take_outputs(self, outputs: list[Any], keep: str) -> list[dict[Argument, Any]]:
        """The outputs, or their gradients, of each direction."""
        return _by_direction(list(self.output_sizes(keep)), outputs)

    def _with_constants(self, tensors: Tensors) -> Tensors:
        for argument, constant in self._constants:
            tensors[argument] = tensors[constant]
        return tensors

    @cached_property
    def _constants(self) -> list[tuple[Argument, Argument]]:
        """Weights, biases and vectors, each with the constant that it is."""
        return [
            (Argument(kind, number), Argument(Kind.CONSTANT, constant))
            for kind, number, constant in self._numbered_constants
        ]

    @cached_property
    def _numbered_constants(self) -> list[tuple[Kind, int, int]]:
        found: list[tuple[Kind, int, int]] = []
        for number, product in enumerate(self.program.products):
            over = product.attention.over if product.attention else None
            parts = ((Kind.WEIGHT, product.weight), (Kind.BIAS, product.bias), (Kind.OVER, over))
            found += [(kind, number, constant) for kind, constant in parts if constant is not None]
        return found + [(Kind.VECTOR, constant, constant) for constant in self.program.vectors]


@dataclass(frozen=True, eq=False)
class Plan:
    """The step, split; and its kernels, or why there are none."""

    number: int
    names: tuple[str, ...]
    split: Split
    kernels: Kernels | None
    refusal: str
    loop: Kernels | None = None
    scan: Kernels | None = None
    """The kernels with one of the two methods forced, where there are both."""

    def kernels_by(self, method: str) -> Kernels | None:
        """The kernels that run a recurrence by this method, where they have the choice."""
        forced = self.loop if method == "loop" else self.scan if method == "scan" else None
        return forced or self.kernels

    def tensors(self, cell: Cell) -> list[Tensor]:
        """The cell's parameters and buffers, in the order in which `before` takes them."""
        return [_attribute(cell, name) for name in self.names]


class Registry:
    """All plans, as attributes: torch.compile looks at an attribute when it comes to it, at a list once and for all."""

    def add(self, plan: Plan) -> None:
        setattr(self, f"plan{plan.number}", plan)

    def plan(self, number: int) -> Plan:
        found: Plan = getattr(self, f"plan{number}")
        return found


KERNELS: list[Kernels] = []
"""By number, because an operator of torch takes numbers, not objects."""

PLANS = Registry()
_by_trace: dict[str, Plan] = {}
_lock = threading.Lock()


def make_plan(cell: Cell, dtype: torch.dtype) -> Plan:
    """Trace a cell and plan it, or take the plan of one like it; raises Untraceable where that is not possible."""
    traced = trace(cell, dtype)
    signature = "\n".join(f"{node.format_node()} {node.meta}" for node in traced.graph.nodes)
    with _lock:
        if signature not in _by_trace:
            _by_trace[signature] = _plan(traced, len(_by_trace))
            PLANS.add(_by_trace[signature])
        return _by_trace[signature]


def _plan(traced: Trace, number: int) -> Plan:
    rewrite(traced)
    parts = split(traced)
    if not parts.hoisted or not parts.state:
        raise Untraceable("it has no state" if parts.hoisted else "it does not read its input")
    names = tuple(traced.parameters)
    kernels, reason = _try_kernels(parts)
    if kernels is None:  # perhaps what they cannot compute is needed for the output only
        parts = split(traced, output_behind=True)
        kernels, _ = _try_kernels(parts)
    if kernels is None:
        return Plan(number, names, parts, None, reason)
    if kernels.scans is None:
        return Plan(number, names, parts, _register(kernels), "")
    loop, scan = (replace(kernels, method=method) for method in FORCED)
    return Plan(number, names, parts, _register(kernels), "", _register(loop), _register(scan))


def _try_kernels(parts: Split) -> tuple[Kernels | None, str]:
    """The kernels of a split step, or why there are none."""
    try:
        return _make_kernels(lower(parts), parts), ""
    except Untraceable as error:
        return None, str(error)


def _register(kernels: Kernels) -> Kernels:
    """Kernels with their number, by which operators find them."""
    numbered = replace(kernels, number=len(KERNELS))
    _ = numbered.results
    KERNELS.append(numbered)
    return numbered


def _make_kernels(program: Program, parts: Split) -> Kernels:
    """Derive the backward step and lay out the buffers; of a step in lanes the backward pass reads hoisted values."""
    if not program.products:
        adjoint = derive(program, recompute=True)
        layout = lay_out(program, adjoint, parts.consumable)
        if (lanes := find_lanes(program, adjoint, layout)) is not None:
            found = [find_scan(program.build, lane) for lane in lanes]
            scans = [scan for scan in found if scan is not None]
            linear = scans if len(scans) == len(found) else None
            return Kernels(0, program, adjoint, layout, parts.biased, lanes, linear)
    adjoint = derive(program)
    return Kernels(0, program, adjoint, lay_out(program, adjoint, parts.consumable), parts.biased)


def _by_direction(order: list[Argument], values: list[Any]) -> list[dict[Argument, Any]]:
    starts = range(0, len(values), len(order))
    return [dict(zip(order, values[start : start + len(order)], strict=True)) for start in starts]


def _attribute(module: nn.Module, name: str) -> Tensor:
    *path, last = name.split(".")
    for part in path:
        module = getattr(module, part)
    found: Tensor = getattr(module, last)
    return found
