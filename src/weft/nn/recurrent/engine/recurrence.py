"""The loop over time as two operators of torch, forward and backward.

As operators they are opaque to torch.compile, which keeps them in its graph, and to autograd, which is told the
gradients. Everything around the loop stays torch code that autograd sees through (products.py has the one exception).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from weft.errors import WeftError
from weft.nn.native import pages
from weft.nn.recurrent.engine.gradients import input_gradients
from weft.nn.recurrent.engine.plan import COPY, IN_PLACE, KERNELS, NOTHING, Kernels, Steps


def recur(
    kernels: Kernels, inputs: list[Tensor], steps: Steps, reverse: list[bool]
) -> list[tuple[list[Tensor], list[Tensor]]]:
    """For each direction hoisted (N, n), first states (B, n), constants -> emitted (N, n), last states (B, n)."""
    keep = NOTHING
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs):
        keep = COPY if torch.compiler.is_compiling() else IN_PLACE
    if torch.compiler.is_compiling():
        outputs = torch.ops.weft.recurrence(inputs, steps.lengths, steps.time, kernels.number, reverse, keep)
    elif keep == NOTHING:
        outputs, _ = _forward(inputs, steps.lengths, steps.time, kernels.number, reverse, keep)
    else:
        outputs = _Recurrence.apply(  # type: ignore[no-untyped-call]
            steps.lengths, steps.time, kernels.number, reverse, keep, *inputs
        )
    results = []
    for named in kernels.outputs_by_name(outputs, keep):
        emitted = [named[name] for name in kernels.emitted_names]
        results.append((emitted, [named[f"final{number}"] for number in range(len(kernels.program.state))]))
    return results


def _forward(
    inputs: list[Tensor], lengths: Tensor | None, time: int, kernels: int, reverse: list[bool], keep: str
) -> tuple[list[Tensor], list[Tensor]]:
    """Run the loop -> outputs of every direction, one after the other; and what its backward pass needs, likewise."""
    plan = KERNELS[kernels]
    tensors = plan.inputs_by_name(inputs)
    outputs: list[Tensor] = []
    kept: list[Tensor] = []
    for mine in tensors:
        made = _empty_outputs(plan, mine, keep, mine["start0"].shape[0] * time, pages.empty)
        outputs += made.values()
        if keep == IN_PLACE:
            mine |= {f"kept{number}": mine[f"hoisted{number}"] for number in plan.layout.overwritten}
        mine |= made
        kept += [mine[name] for name in plan.kept_names] if keep != NOTHING else []
    steps = Steps(tensors[0]["start0"].shape[0], time, lengths)
    plan.backend(inputs[0]).forward(tensors, steps, reverse)
    return outputs, kept


def _backward(
    gradients: list[Tensor],
    kept: list[Tensor],
    lengths: Tensor | None,
    time: int,
    kernels: int,
    reverse: list[bool],
    rows: int,
) -> list[Tensor]:
    """Gradients of emitted values and last states, and what was kept, by direction -> the gradients of the inputs.

    rows is the number of steps that hoisted values have.
    """
    plan = KERNELS[kernels]
    tensors = plan.kept_by_name(kept)
    share = len(gradients) // len(reverse)
    for direction, mine in enumerate(tensors):
        names = [f"grad_emitted{number}" for number in range(len(plan.program.emitted))]
        names += [f"grad_final{number}" for number in range(len(plan.program.state))]
        given = gradients[direction * share : (direction + 1) * share]
        mine |= {name: gradient.contiguous() for name, gradient in zip(names, given, strict=True)}
        mine |= _empty_gradients(plan, mine, rows)
    steps = Steps(tensors[0]["start0"].shape[0], time, lengths)
    plan.backend(kept[0]).backward(tensors, steps, reverse)
    return [
        gradient
        for mine, backwards in zip(tensors, reverse, strict=True)
        for gradient in input_gradients(plan, mine, steps, backwards=backwards)
    ]


@torch.library.custom_op("weft::recurrence", mutates_args=())
def recurrence(
    inputs: list[Tensor], lengths: Tensor | None, time: int, kernels: int, reverse: list[bool], keep: str
) -> list[Tensor]:
    """The forward pass for torch.compile."""
    return _forward(inputs, lengths, time, kernels, reverse, keep)[0]


@recurrence.register_fake
def _(
    inputs: list[Tensor], lengths: Tensor | None, time: int, kernels: int, reverse: list[bool], keep: str
) -> list[Tensor]:
    plan = KERNELS[kernels]
    rows, tensors = inputs[0].shape[0], plan.inputs_by_name(inputs)
    return [made for mine in tensors for made in _empty_outputs(plan, mine, keep, rows, _empty).values()]


@torch.library.custom_op("weft::recurrence_backward", mutates_args=())
def recurrence_backward(
    gradients: list[Tensor], kept: list[Tensor], lengths: Tensor | None, time: int, kernels: int, reverse: list[bool]
) -> list[Tensor]:
    """The backward pass for torch.compile."""
    rows = KERNELS[kernels].kept_by_name(kept)[0]["history0"].shape[0]
    return _backward(gradients, kept, lengths, time, kernels, reverse, rows)


@recurrence_backward.register_fake
def _(
    gradients: list[Tensor], kept: list[Tensor], lengths: Tensor | None, time: int, kernels: int, reverse: list[bool]
) -> list[Tensor]:
    plan = KERNELS[kernels]
    results = []
    for mine in plan.kept_by_name(kept):
        rows = mine["history0"].shape[0]
        results += [mine["history0"].new_empty(rows, width) for width in plan.program.hoisted]
        results += [torch.empty_like(mine[name]) for name in plan.input_names[len(plan.program.hoisted) :]]
    return results


def _setup(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    given, lengths, *settings = inputs
    plan, keep = KERNELS[settings[1]], settings[3]
    named = zip(plan.inputs_by_name(given), plan.outputs_by_name(output, keep), strict=True)
    _remember(ctx, [(mine | made)[name] for mine, made in named for name in plan.kept_names], lengths, *settings)


def _remember(
    ctx: Any, kept: list[Tensor], lengths: Tensor | None, time: int, kernels: int, reverse: list[bool], keep: str
) -> None:
    ctx.time, ctx.kernels, ctx.reverse, ctx.keep, ctx.lengths = time, kernels, reverse, keep, lengths is not None
    ctx.save_for_backward(*kept, *([] if lengths is None else [lengths]))


def _arguments(ctx: Any, gradients: Sequence[Tensor | None]) -> tuple[Any, ...]:
    """What the backward pass takes, from what the forward pass has kept; a missing gradient is zero."""
    plan = KERNELS[ctx.kernels]
    saved = list(ctx.saved_tensors)
    lengths = saved.pop() if ctx.lengths else None
    given: list[Tensor] = []
    for mine, grads in zip(plan.kept_by_name(saved), plan.outputs_by_name(list(gradients), ctx.keep), strict=True):
        for name, width in plan.gradient_sizes.items():
            like = mine[name.replace("final", "start") if name.startswith("final") else "history0"]
            given.append(like.new_zeros(like.shape[0], width) if grads[name] is None else grads[name])
    return given, saved, lengths, ctx.time, ctx.kernels, ctx.reverse


def _compiled_backward(ctx: Any, gradients: list[Tensor | None]) -> tuple[Any, ...]:
    results = torch.ops.weft.recurrence_backward(*_arguments(ctx, gradients))
    return results, None, None, None, None, None


def _no_setup(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    """Nothing is kept for a second derivative, since there is none."""


def _refuse(ctx: Any, *gradients: Any) -> Any:
    raise WeftError("the engine's kernels have no second derivative", where="backend", cure='use backend="reference"')


torch.library.register_autograd("weft::recurrence", _compiled_backward, setup_context=_setup)
torch.library.register_autograd("weft::recurrence_backward", _refuse, setup_context=_no_setup)


class _Recurrence(torch.autograd.Function):
    """The same without torch.compile: several times cheaper to call than an operator."""

    @staticmethod
    def forward(
        ctx: Any, lengths: Tensor | None, time: int, kernels: int, reverse: list[bool], keep: str, *inputs: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        outputs, kept = _forward(list(inputs), lengths, time, kernels, reverse, keep)
        _remember(ctx, kept, lengths, time, kernels, reverse, keep)
        ctx.rows = inputs[0].size(0)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
        given, saved, *rest = *_arguments(ctx, gradients), ctx.rows
        if torch.is_grad_enabled():
            results = _RecurrenceBackward.apply(len(given), rest, *given, *saved)  # type: ignore[no-untyped-call]
        else:
            results = _backward(given, saved, *rest)
        return (None, None, None, None, None, *results)


class _RecurrenceBackward(torch.autograd.Function):
    """Only met where a second derivative may follow: says that there is none if one does."""

    @staticmethod
    def forward(ctx: Any, count: int, rest: list[Any], *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(_backward(list(tensors[:count]), list(tensors[count:]), *rest))

    backward = staticmethod(_refuse)


def _empty_outputs(
    plan: Kernels, mine: dict[str, Tensor], keep: str, rows: int, empty: Callable[[int, int, Tensor], Tensor]
) -> dict[str, Tensor]:
    """What the loop fills, for one direction, made by `empty`; histories and emitted values have `rows` steps."""
    like = mine["hoisted0"]
    made = {}
    for name, width in plan.output_sizes(keep).items():
        if name.startswith("final"):
            made[name] = torch.empty_like(mine[name.replace("final", "start")])
        else:
            made[name] = empty(like.shape[0] if name.startswith(("kept", "saved")) else rows, width, like)
    return made


def _empty(rows: int, width: int, like: Tensor) -> Tensor:
    return like.new_empty(rows, width)


def _empty_gradients(plan: Kernels, mine: dict[str, Tensor], rows: int) -> dict[str, Tensor]:
    """What the backward loop fills, for one direction."""
    program, layout, like = plan.program, plan.layout, mine["history0"]
    sizes = {f"grad_hoisted{number}": width for number, width in enumerate(program.hoisted)}
    for number, product in enumerate(program.products):
        if number not in layout.product_alias:
            sizes[f"grad_product{number}"] = product.width
        if number in plan.adjoint.left:
            sizes[f"lefts{number}"] = product.depth
    if like.is_cuda:  # on a CPU the loop adds them up as it goes
        sizes |= {f"grad_vector{number}": expr.width for number, expr in enumerate(layout.vectors)}
    buffers = {name: pages.empty(rows, width, like) for name, width in sizes.items()}
    return buffers | {
        f"grad_start{number}": torch.empty_like(mine[f"start{number}"]) for number in range(len(program.state))
    }
