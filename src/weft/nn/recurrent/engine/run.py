"""Running a plan: what comes before the loop, the loop on one of its backends, what comes after."""

from __future__ import annotations

import warnings
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from weft.nn.kernels import HAS_TRITON
from weft.nn.native.compiler import NoCompiler
from weft.nn.recurrent.attending import Source
from weft.nn.recurrent.cell import Cell
from weft.nn.recurrent.engine import plain
from weft.nn.recurrent.engine.enrolled import NO_LAYER, enrolled
from weft.nn.recurrent.engine.known import dtype_of, plan_of
from weft.nn.recurrent.engine.plan import KERNELS, PLANS, Kernels, Plan, StepCounts
from weft.nn.recurrent.engine.recurrence import recur
from weft.nn.recurrent.engine.rows import BatchRows
from weft.nn.recurrent.lengths import zero_past_end
from weft.nn.recurrent.segments import Segments
from weft.nn.state import State, leaves_of, with_leaves


class BackendChoice(NamedTuple):
    """A key of BACKENDS, why it is not a faster one, the number of the plan (-1 without one), and the method of its
    kernels where there are several."""

    backend: str
    reason: str
    plan: int
    method: str = "auto"


def choose(cell: Cell, device: str) -> BackendChoice:
    """The backend for a kind of device."""
    plan = plan_of(cell)
    if isinstance(plan, str):
        return BackendChoice("reference", plan, -1)
    if refusal := _refusal(cell, plan, device):
        return BackendChoice("plain", refusal, plan.number)
    return BackendChoice(device, "", plan.number)


def is_linear(choice: BackendChoice) -> bool:
    """Whether the step of a plan is linear in its state, so that it may run as a scan."""
    return choice.plan >= 0 and PLANS.plan(choice.plan).scan is not None


def is_capturable(choice: BackendChoice) -> bool:
    """Whether a CUDA graph may capture the kernels of a plan: not where they are graphs themselves."""
    kernels = PLANS.plan(choice.plan).kernels if choice.plan >= 0 else None
    return choice.backend == "cuda" and kernels is not None and kernels.lanes is not None


def choose_enrolled(number: int, device: str, settings: tuple[object, ...]) -> tuple[str, str, int]:
    """`choose` for torch.compile, which calls it once for each choice of settings and keeps the result: while it
    traces, it accepts constant results of numbers, not of objects."""
    choice = choose(enrolled(number), device)
    return choice.backend, choice.reason, choice.plan


# The mark that torch.compiler.assume_constant_result sets; calling that would load the whole compiler.
setattr(choose_enrolled, "_dynamo_marked_constant", True)  # noqa: B010


def run(
    cells: list[Cell],
    x: Tensor,
    states: list[State],
    lengths: Tensor | None,
    *,
    choice: BackendChoice,
    histories: list[State] | None = None,
    segments: Segments | None = None,
    source: Source | None = None,
    attention: list[list[Tensor]] | None = None,
    layer: int = NO_LAYER,
) -> tuple[list[Tensor], list[State]]:
    """x (B, T, I), each direction's cell and first state -> each direction's outputs (B, T, O) and last state.

    The second cell, where there is one, reads every row from its own end. `histories`, where it is given, gets each
    direction's states after every step (B, T, n), zero past a row's end, if the backend has kernels. With segments,
    first and last states are those of each segment. `source` is what cells attend to that do; `attention`, where it is
    given, gets each direction's weights of each attention of a step (B, T, S), if the backend has kernels. `layer` is
    the number of the layer, which gets to know how the pass ran.
    """
    plan = PLANS.plan(choice.plan)
    if x.device.type == "cpu" and torch.is_autocast_enabled("cpu"):
        with torch.autocast("cpu", enabled=False):
            x = x.to(dtype_of(cells[0]))
            source = source and source.to(x)
            return run(
                cells, x, states, lengths, choice=choice, histories=histories, segments=segments, source=source,
                attention=attention, layer=layer,
            )  # fmt: skip
    kernels = None if choice.backend == "plain" else plan.kernels_by(choice.method)
    return _run_directions(cells, plan, x, states, lengths, kernels, histories, segments, source, attention, layer)


def _run_directions(
    cells: list[Cell],
    plan: Plan,
    x: Tensor,
    states: list[State],
    lengths: Tensor | None,
    kernels: Kernels | None,
    histories: list[State] | None,
    segments: Segments | None,
    source: Source | None,
    attention: list[list[Tensor]] | None,
    layer: int,
) -> tuple[list[Tensor], list[State]]:
    split, batch = plan.split, x.size(0)
    # The number of real steps is known at once on a CPU; reading it elsewhere, or in a compiled graph, would block.
    leave_out = kernels is not None and source is None and x.device.type == "cpu" and not torch.compiler.is_compiling()
    # The kernels carry the state in float32 whatever they compute in, so there it keeps its own type.
    dtype = torch.get_autocast_dtype(x.device.type) if torch.is_autocast_enabled(x.device.type) else x.dtype
    if x.device.type == "cpu" and dtype != torch.float32:  # of a cell without parameters, x alone knows the type
        kernels, leave_out = None, False
    if segments is not None and (kernels is None or source is not None):
        theirs = source and source.select(segments.rows(x))
        return segments.run_padded(
            lambda rows, ends: _run_directions(
                cells, plan, rows, states, ends, kernels, None, None, theirs, None, layer
            ),
            x,
        )
    rows = BatchRows(x, lengths, leave_out=leave_out)
    inputs: list[list[Tensor]] = []
    rests: list[list[Tensor]] = []
    for cell, state in zip(cells, states, strict=True):
        # Not called as a module, which would look for hooks.
        before = (split.before if kernels is None else split.bare).forward
        values = list(before(rows.taken, *plan.tensors(cell)))
        biases = [] if kernels is None else [values.pop() for _ in split.biased][::-1]
        hoisted = [value.to(dtype).contiguous() for value in values[: split.hoisted]]
        if kernels is not None:  # which know columns only
            hoisted = [value.flatten(1) for value in hoisted]
        starts = [leaf if x.is_cuda and kernels else leaf.to(dtype) for leaf in leaves_of(state)]
        constants = values[split.hoisted : split.hoisted + split.constants]
        attended = [] if source is None else source.to(hoisted[0])
        inputs.append([*hoisted, *starts, *constants, *biases, *attended])
        rests.append(values[split.hoisted + split.constants :])
    reverse = [bool(direction) for direction in range(len(cells))]
    if kernels is not None:
        steps = StepCounts(batch, rows.time, lengths, layer=layer)
        if segments is not None:
            steps = StepCounts(
                segments.total, segments.longest, segments.lengths, segments.first, batch * rows.time, layer
            )
        results = recur(kernels, [tensor for mine in inputs for tensor in mine], steps, reverse)
    else:
        results = [
            plain.recur(split, mine, lengths, rows.time, reverse=backwards)
            for mine, backwards in zip(inputs, reverse, strict=True)
        ]
    outputs, finals = [], []
    for (emitted, last, history, weights), rest, state in zip(results, rests, states, strict=True):
        if split.after is not None:
            output = rows.put_back(split.after(*(rows.take(value) for value in emitted), *rest)[0])
        else:
            output = emitted[0].view(batch, rows.time, emitted[0].size(1))
            output = output if kernels is not None else zero_past_end(output, lengths)
        outputs.append(output)
        finals.append(with_leaves(state, last))
        if histories is not None and history:
            every = [zero_past_end(part.view(batch, rows.time, -1), lengths) for part in history]
            histories.append(with_leaves(state, every))
        if attention is not None and weights:
            attention.append([part.detach().view(batch, rows.time, -1) for part in weights])
    return outputs, finals


def _refusal(cell: Cell, plan: Plan, device: str) -> str:
    """Why the kernels cannot run here, or an empty string."""
    if plan.kernels is None:
        return plan.refusal
    if device == "cuda":
        return _cuda_refusal(cell, plan.kernels)
    if device != "cpu":
        return f"there are no kernels for {device}"
    if dtype_of(cell) != torch.float32:
        return f"the kernels compute in float32, not {str(dtype_of(cell)).removeprefix('torch.')}"
    return _compiled(plan.kernels.number)


def _cuda_refusal(cell: Cell, kernels: Kernels) -> str:
    if not HAS_TRITON:
        return "Triton is not installed (pip install triton)"
    if dtype_of(cell) not in (torch.float32, torch.bfloat16, torch.float16):
        return f"the kernels do not compute in {str(dtype_of(cell)).removeprefix('torch.')}"
    if kernels.lanes is None and torch.cuda.is_current_stream_capturing():
        return "a CUDA graph is being captured, and graphs do not nest"
    return ""


@cache
def _compiled(number: int) -> str:
    """Compile a plan's kernels; why that is not possible, said once."""
    try:
        _ = KERNELS[number].cpu
    except NoCompiler as error:
        warnings.warn(f"recurrent layers run without kernels of their own, more slowly: {error}", stacklevel=2)
        return str(error)
    return ""
