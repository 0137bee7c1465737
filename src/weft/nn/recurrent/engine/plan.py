"""A plan: everything the engine knows about a cell, from its trace to its buffers."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from weft.nn.recurrent.cell import Cell
from weft.nn.recurrent.engine.adjoint import Adjoint, derive
from weft.nn.recurrent.engine.expr import width_of
from weft.nn.recurrent.engine.layout import Layout, lay_out
from weft.nn.recurrent.engine.program import Program, lower
from weft.nn.recurrent.engine.split import Split, split
from weft.nn.recurrent.engine.trace import Trace, Untraceable, trace

NOTHING, IN_PLACE, COPY = "nothing", "in_place", "copy"
"""What the forward pass keeps for the backward one, and where: over the hoisted values, or in buffers of its own.

Writing over an input is what saves memory, and what a compiler that reorders operators must not meet.
"""


class Steps(NamedTuple):
    """How many steps each row of the batch has: its own of `lengths`, else all T of `time`."""

    batch: int
    time: int
    lengths: Tensor | None

    def base(self, device: torch.device) -> Tensor:
        """The first step of each (B,), in a buffer of all B * T."""
        return torch.arange(self.batch, device=device) * self.time


class Backend(Protocol):
    """Runs the loop over time: fills the tensors it is given by name, those of each direction."""

    def forward(self, tensors: list[dict[str, Tensor]], steps: Steps, reverse: list[bool]) -> None: ...

    def backward(self, tensors: list[dict[str, Tensor]], steps: Steps, reverse: list[bool]) -> None: ...


@dataclass(frozen=True, eq=False)
class Kernels:
    """The body of the loop in a form that kernels can be made from, and the names of its tensors."""

    number: int
    program: Program
    adjoint: Adjoint
    layout: Layout
    biased: tuple[int, ...]
    """The hoisted values that come without their bias, which the kernels add."""

    @cached_property
    def cpu(self) -> Backend:
        """Compiled on first use; raises NoCompiler."""
        from weft.nn.recurrent.engine.cpu import CPUBackend

        return CPUBackend(self)

    @cached_property
    def cuda(self) -> Backend:
        """Generated on first use; raises ImportError without Triton."""
        from weft.nn.recurrent.engine.cuda import CUDABackend

        return CUDABackend(self)

    def backend(self, like: Tensor) -> Backend:
        return self.cpu if like.device.type == "cpu" else self.cuda

    @cached_property
    def input_names(self) -> list[str]:
        """What one direction is given."""
        program = self.program
        constants = {product.weight for product in program.products} | set(program.vectors)
        constants |= {product.bias for product in program.products if product.bias is not None}
        return [
            *(f"hoisted{number}" for number in range(len(program.hoisted))),
            *(f"start{number}" for number in range(len(program.state))),
            *(f"constant{number}" for number in range(max(constants, default=-1) + 1)),
            *(f"shift{number}" for number in self.biased),
        ]

    @cached_property
    def emitted_names(self) -> list[str]:
        """The output that holds each emitted value."""
        states = self.layout.history_of
        return [f"history{states[k]}" if k in states else f"emitted{k}" for k in range(len(self.program.emitted))]

    @cached_property
    def gradient_sizes(self) -> dict[str, int]:
        """The outputs whose gradients count, with their columns: emitted values, then last states."""
        rows = zip(self.emitted_names, self.program.emitted, strict=True)
        finals = {f"final{number}": width for number, width in enumerate(self.program.state)}
        return {name: width_of(row) for name, row in rows} | finals

    @cached_property
    def kept_names(self) -> list[str]:
        """What the backward pass of one direction reads."""
        kept = [f"history{number}" for number in range(len(self.program.state))]
        kept += ["saved"] if self.layout.saved else []
        kept += [f"kept{number}" for number in self.layout.overwritten]
        return kept + self.input_names[len(self.program.hoisted) :]

    def output_sizes(self, keep: str) -> dict[str, int]:
        """What one direction gives, with its columns; all are (N, n) but the last states, which are (B, n)."""
        return self._output_sizes[keep]

    @cached_property
    def _output_sizes(self) -> dict[str, dict[str, int]]:
        program, layout = self.program, self.layout
        sizes = {f"history{number}": width for number, width in enumerate(program.state)}
        sizes |= {name: width for name, width in self.gradient_sizes.items() if name not in sizes}
        kept = sizes | ({"saved": layout.saved} if layout.saved else {})
        copied = {f"kept{number}": program.hoisted[number] for number in layout.overwritten}
        return {NOTHING: sizes, IN_PLACE: kept, COPY: kept | copied}

    def inputs_by_name(self, inputs: list[Tensor]) -> list[dict[str, Tensor]]:
        """For each direction; each product's weight and bias and each vector have a name of their own too."""
        return [self._with_constants(named) for named in _by_name(self.input_names, inputs)]

    def kept_by_name(self, kept: list[Tensor]) -> list[dict[str, Tensor]]:
        """For each direction."""
        return [self._with_constants(named) for named in _by_name(self.kept_names, kept)]

    def outputs_by_name(self, outputs: list[Any], keep: str) -> list[dict[str, Any]]:
        """For each direction."""
        return _by_name(list(self.output_sizes(keep)), outputs)

    def _with_constants(self, named: dict[str, Tensor]) -> dict[str, Tensor]:
        for number, product in enumerate(self.program.products):
            named[f"weight{number}"] = named[f"constant{product.weight}"]
            if product.bias is not None:
                named[f"bias{number}"] = named[f"constant{product.bias}"]
        for constant in self.program.vectors:
            named[f"vector{constant}"] = named[f"constant{constant}"]
        return named


@dataclass(frozen=True, eq=False)
class Plan:
    """The step, split; and its kernels, or why there are none."""

    number: int
    names: tuple[str, ...]
    split: Split
    kernels: Kernels | None
    refusal: str

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
    parts = split(traced)
    if not parts.hoisted or not parts.state:
        raise Untraceable("it has no state" if parts.hoisted else "it does not read its input")
    names = tuple(traced.parameters)
    try:
        program = lower(parts)
        adjoint = derive(program)
    except Untraceable as error:
        return Plan(number, names, parts, None, str(error))
    kernels = Kernels(len(KERNELS), program, adjoint, lay_out(program, adjoint, parts.consumable), parts.biased)
    KERNELS.append(kernels)
    return Plan(number, names, parts, kernels, "")


def _by_name(names: list[str], values: list[Any]) -> list[dict[str, Any]]:
    starts = range(0, len(values), len(names))
    return [dict(zip(names, values[start : start + len(names)], strict=True)) for start in starts]


def _attribute(module: nn.Module, name: str) -> Tensor:
    *path, last = name.split(".")
    for part in path:
        module = getattr(module, part)
    found: Tensor = getattr(module, last)
    return found
