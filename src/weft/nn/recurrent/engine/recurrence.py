"""The loop over time as two operators of torch, forward and backward.

As operators they are opaque to torch.compile, which keeps them in its graph, and to autograd, which gets the
gradients from them. Everything around the loop stays torch code that autograd differentiates (products.py has the one
exception).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from weft.errors import WeftError
from weft.nn.native import pages
from weft.nn.recurrent.engine.argument import KEYS, Argument, Kind, arguments
from weft.nn.recurrent.engine.gradients import input_gradients
from weft.nn.recurrent.engine.plan import COPY, IN_PLACE, KERNELS, NOTHING, Kernels, StepCounts, Tensors
from weft.nn.recurrent.engine.precision import products_as_of_lstm

START, HISTORY = Argument(Kind.START, 0), Argument(Kind.HISTORY, 0)
"""Every plan has a state; the tensors of the first have the numbers of rows and of steps."""


def recur(kernels: Kernels, inputs: list[Tensor], steps: StepCounts, reverse: list[bool]) -> list[list[list[Tensor]]]:
    """For each direction hoisted (N, n), first states (B, n), constants, biases, source -> emitted (N, n), last states
    (B, n), the states after each step (B * T, n), with anything past a row's end, and the weights of attention
    (B * T, S)."""
    keep = NOTHING
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs):
        keep = COPY if torch.compiler.is_compiling() else IN_PLACE
    if torch.compiler.is_compiling():
        outputs = torch.ops.weft.recurrence(
            inputs, steps.lengths, steps.first, steps.time, steps.layer, kernels.number, reverse, keep
        )
    elif keep == NOTHING:
        outputs, _ = _forward(inputs, steps, kernels.number, reverse, keep)
    else:
        outputs = _Recurrence.apply(steps, kernels.number, reverse, keep, *inputs)  # type: ignore[no-untyped-call]
    found, count = kernels.results[keep]
    return [
        [[outputs[first + place] for place in places] for places in found] for first in range(0, len(outputs), count)
    ]


def _forward(
    inputs: list[Tensor], steps: StepCounts, kernels: int, reverse: list[bool], keep: str
) -> tuple[list[Tensor], list[Tensor]]:
    """Run the loop -> outputs of every direction, one after the other; and what its backward pass needs, likewise."""
    plan = KERNELS[kernels]
    tensors = plan.take_inputs(inputs)
    outputs: list[Tensor] = []
    kept: list[Tensor] = []
    for mine in tensors:
        made = _empty_outputs(plan, mine, keep, steps.all_steps, pages.empty)
        outputs += made.values()
        if keep == IN_PLACE:
            mine |= {
                Argument(Kind.KEPT, number): mine[Argument(Kind.HOISTED, number)] for number in plan.layout.overwritten
            }
        mine |= made
        kept += [mine[argument] for argument in plan.kept] if keep != NOTHING else []
    with products_as_of_lstm(inputs[0]):
        plan.backend(inputs[0]).forward(tensors, steps, reverse)
    return outputs, kept


def _backward(
    gradients: list[Tensor],
    kept: list[Tensor],
    steps: StepCounts,
    kernels: int,
    reverse: list[bool],
    rows: int,
) -> list[Tensor]:
    """Gradients of emitted values and last states, and what was kept, by direction -> the gradients of the inputs.

    rows is the number of steps that hoisted values have.
    """
    plan = KERNELS[kernels]
    tensors = plan.take_kept(kept)
    share = len(gradients) // len(reverse)
    for direction, mine in enumerate(tensors):
        order = arguments(Kind.GRAD_EMITTED, len(plan.program.emitted))
        order += arguments(Kind.GRAD_FINAL, len(plan.program.state))
        given = gradients[direction * share : (direction + 1) * share]
        mine |= {argument: gradient.contiguous() for argument, gradient in zip(order, given, strict=True)}
        mine |= _empty_gradients(plan, mine, rows)
    with products_as_of_lstm(kept[0]):
        plan.backend(kept[0]).backward(tensors, steps, reverse)
        return [
            gradient
            for mine, backwards in zip(tensors, reverse, strict=True)
            for gradient in input_gradients(plan, mine, steps, backwards=backwards)
        ]


@torch.library.custom_op("weft::recurrence", mutates_args=())
def recurrence(
    inputs: list[Tensor],
    lengths: Tensor | None,
    first: Tensor | None,
    time: int,
    layer: int,
    kernels: int,
    reverse: list[bool],
    keep: str,
) -> list[Tensor]:
    """The forward pass for torch.compile."""
    batch = KERNELS[kernels].take_inputs(inputs)[0][START].shape[0]
    steps = StepCounts(batch, time, lengths, first, inputs[0].shape[0], layer)
    return _forward(inputs, steps, kernels, reverse, keep)[0]


@recurrence.register_fake
def _(
    inputs: list[Tensor],
    lengths: Tensor | None,
    first: Tensor | None,
    time: int,
    layer: int,
    kernels: int,
    reverse: list[bool],
    keep: str,
) -> list[Tensor]:
    plan = KERNELS[kernels]
    rows, tensors = inputs[0].shape[0], plan.take_inputs(inputs)
    return [made for mine in tensors for made in _empty_outputs(plan, mine, keep, rows, _empty).values()]


@torch.library.custom_op("weft::recurrence_backward", mutates_args=())
def recurrence_backward(
    gradients: list[Tensor],
    kept: list[Tensor],
    lengths: Tensor | None,
    first: Tensor | None,
    time: int,
    layer: int,
    kernels: int,
    reverse: list[bool],
) -> list[Tensor]:
    """The backward pass for torch.compile."""
    mine = KERNELS[kernels].take_kept(kept)[0]
    rows = mine[HISTORY].shape[0]
    steps = StepCounts(mine[START].shape[0], time, lengths, first, rows, layer)
    return _backward(gradients, kept, steps, kernels, reverse, rows)


@recurrence_backward.register_fake
def _(
    gradients: list[Tensor],
    kept: list[Tensor],
    lengths: Tensor | None,
    first: Tensor | None,
    time: int,
    layer: int,
    kernels: int,
    reverse: list[bool],
) -> list[Tensor]:
    plan = KERNELS[kernels]
    results = []
    for mine in plan.take_kept(kept):
        rows = mine[HISTORY].shape[0]
        results += [mine[HISTORY].new_empty(rows, width) for width in plan.program.hoisted]
        results += [torch.empty_like(mine[argument]) for argument in plan.inputs[len(plan.program.hoisted) :]]
    return results


def _setup(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    given, lengths, first, time, layer, kernels, reverse, keep = inputs
    plan = KERNELS[kernels]
    named = zip(plan.take_inputs(given), plan.take_outputs(output, keep), strict=True)
    kept = [(mine | made)[argument] for mine, made in named for argument in plan.kept]
    _remember(ctx, kept, lengths, first, time, layer, kernels, reverse, keep)


def _remember(
    ctx: Any,
    kept: list[Tensor],
    lengths: Tensor | None,
    first: Tensor | None,
    time: int,
    layer: int,
    kernels: int,
    reverse: list[bool],
    keep: str,
) -> None:
    ctx.time, ctx.layer, ctx.kernels, ctx.reverse, ctx.keep = time, layer, kernels, reverse, keep
    ctx.lengths, ctx.first = lengths is not None, first is not None
    ctx.save_for_backward(*kept, *(tensor for tensor in (lengths, first) if tensor is not None))


def _arguments(ctx: Any, gradients: Sequence[Tensor | None]) -> tuple[Any, ...]:
    """Arguments of the backward pass, from the tensors that were kept; a missing gradient is zero."""
    plan = KERNELS[ctx.kernels]
    saved = list(ctx.saved_tensors)
    first = saved.pop() if ctx.first else None
    lengths = saved.pop() if ctx.lengths else None
    given: list[Tensor] = []
    for mine, grads in zip(plan.take_kept(saved), plan.take_outputs(list(gradients), ctx.keep), strict=True):
        for argument, width in plan.gradient_sizes.items():
            like = mine[Argument(Kind.START, argument.number) if argument.kind is Kind.FINAL else HISTORY]
            given.append(like.new_zeros(like.shape[0], width) if grads[argument] is None else grads[argument])
    return given, saved, lengths, first, ctx.time, ctx.layer, ctx.kernels, ctx.reverse


def _compiled_backward(ctx: Any, gradients: list[Tensor | None]) -> tuple[Any, ...]:
    results = torch.ops.weft.recurrence_backward(*_arguments(ctx, gradients))
    results = [result if result.is_floating_point() else None for result in results]  # lengths of a source have none
    return results, None, None, None, None, None, None, None


def _no_setup(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    """Nothing is kept for a second derivative, since there is none."""


def _refuse(ctx: Any, *gradients: Any) -> Any:
    raise WeftError("the engine's kernels have no second derivative", where="backend", cure='use backend="reference"')


torch.library.register_autograd("weft::recurrence", _compiled_backward, setup_context=_setup)
torch.library.register_autograd("weft::recurrence_backward", _refuse, setup_context=_no_setup)


class _Recurrence(torch.autograd.Function):
    """The recurrence without torch.compile: several times cheaper to call than an operator."""

    @staticmethod
    def forward(
        ctx: Any, steps: StepCounts, kernels: int, reverse: list[bool], keep: str, *inputs: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        outputs, kept = _forward(list(inputs), steps, kernels, reverse, keep)
        _remember(ctx, kept, steps.lengths, steps.first, steps.time, steps.layer, kernels, reverse, keep)
        ctx.rows, ctx.batch, ctx.positions = inputs[0].size(0), steps.batch, steps.positions
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
        given, saved, lengths, first, time, layer, kernels, reverse = _arguments(ctx, gradients)
        rest = [StepCounts(ctx.batch, time, lengths, first, ctx.positions, layer), kernels, reverse, ctx.rows]
        if torch.is_grad_enabled():
            results = _RecurrenceBackward.apply(len(given), rest, *given, *saved)  # type: ignore[no-untyped-call]
        else:
            results = _backward(given, saved, *rest)
        return (None, None, None, None, *results)


class _RecurrenceBackward(torch.autograd.Function):
    """Only met where a second derivative may follow: says that there is none if one does."""

    @staticmethod
    def forward(ctx: Any, count: int, rest: list[Any], *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(_backward(list(tensors[:count]), list(tensors[count:]), *rest))

    backward = staticmethod(_refuse)


def _empty_outputs(
    plan: Kernels, mine: Tensors, keep: str, rows: int, empty: Callable[[int, int, Tensor], Tensor]
) -> Tensors:
    """Outputs of the loop in one direction, made by `empty`; histories and emitted values have `rows` steps."""
    like = mine[Argument(Kind.HOISTED, 0)]
    made = {}
    for argument, width in plan.output_sizes(keep).items():
        if argument.kind is Kind.FINAL:
            made[argument] = torch.empty_like(mine[Argument(Kind.START, argument.number)])
        elif argument.kind is Kind.ATTENTION:
            made[argument] = empty(rows, mine[KEYS].shape[1], like.new_empty(0, dtype=torch.float32))
        else:
            made[argument] = empty(like.shape[0] if argument.is_kept else rows, width, like)
    return made


def _empty(rows: int, width: int, like: Tensor) -> Tensor:
    return like.new_empty(rows, width)


def _empty_gradients(plan: Kernels, mine: Tensors, rows: int) -> Tensors:
    """Buffers that the backward loop fills in one direction."""
    program, layout, like = plan.program, plan.layout, mine[HISTORY]
    sizes = {Argument(Kind.GRAD_HOISTED, number): width for number, width in enumerate(program.hoisted)}
    for number, product in enumerate(program.products):
        if number not in layout.product_alias:
            sizes[Argument(Kind.GRAD_PRODUCT, number)] = product.width
        if number in plan.adjoint.left:
            sizes[Argument(Kind.LEFTS, number)] = product.depth
    if program.attends:
        steps = mine[KEYS].shape[1]
        sizes |= {Argument(Kind.GRAD_SCORES, number): steps for number in program.attends}
    buffers = {argument: pages.empty(rows, width, like) for argument, width in sizes.items()}
    if program.additive:
        buffers[KEYS.gradient] = torch.zeros_like(mine[KEYS], dtype=torch.float32)
    starts = arguments(Kind.START, len(program.state))
    return buffers | {start.gradient: torch.empty_like(mine[start]) for start in starts}
