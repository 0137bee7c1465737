"""After the backward loop: the gradients of weights, each by one product over all time steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from weft.nn.native.product import multiply_transposed
from weft.nn.recurrent.engine.adjoint import pure_state
from weft.nn.recurrent.engine.argument import KEYS, SOURCE_LENGTHS, VALUES, Argument, Kind
from weft.nn.recurrent.engine.precision import EXACT, products_in

if TYPE_CHECKING:
    from weft.nn.recurrent.engine.plan import Kernels, StepCounts, Tensors


def input_gradients(plan: Kernels, tensors: Tensors, steps: StepCounts, *, backwards: bool) -> list[Tensor]:
    """The gradients of one direction's inputs, from the buffers that the backward loop has filled."""
    constants = _constant_gradients(plan, tensors, steps, backwards=backwards)
    source = _source_gradients(plan, tensors, steps, backwards=backwards)
    gradients = []
    for argument in plan.inputs:
        if argument.kind is Kind.CONSTANT:
            found, like = constants.get(argument.number), tensors[argument]
            gradients.append(torch.zeros_like(like) if found is None else found.to(like.dtype))
        elif argument.kind is Kind.SHIFT:
            steps_of = tensors[Argument(Kind.GRAD_HOISTED, argument.number)]
            summed = tensors.get(Argument(Kind.SUM_HOISTED, argument.number), steps_of)
            gradients.append(_over_steps(summed, of_steps=summed is steps_of).to(tensors[argument].dtype))
        elif argument.is_source:
            gradients.append(source[argument].to(tensors[argument].dtype))
        else:
            gradients.append(tensors[argument.gradient])
    return gradients


def _source_gradients(plan: Kernels, tensors: Tensors, steps: StepCounts, *, backwards: bool) -> dict[Argument, Tensor]:
    """Those of keys and values, one product for all steps each; that of the lengths is zero."""
    program = plan.program
    if not program.attends:
        return {}
    keys, values = tensors[KEYS], tensors[VALUES]
    for_keys = tensors[KEYS.gradient] if program.additive else torch.zeros_like(keys)
    for_values = torch.zeros_like(values)
    shape = (keys.size(0), steps.time, -1)
    for number in program.attends:
        attention, used = program.products[number].attention, tensors[Argument(Kind.ATTENTION, number)]
        assert attention is not None
        if attention.hard:
            some = (used != 0).any(-1, keepdim=True)
            used = torch.zeros_like(used).scatter(-1, used.argmax(-1, keepdim=True), 1.0) * some
        gradient = _product_gradient(plan, tensors, number)
        for_values = for_values + used.to(gradient.dtype).view(shape).transpose(1, 2) @ gradient.reshape(shape)
        if attention.over is None:
            scores = tensors[Argument(Kind.GRAD_SCORES, number)].view(shape)
            left = _left_of(plan, tensors, number, steps, backwards=backwards)
            for_keys = for_keys + scores.transpose(1, 2) @ left.view(shape)
    return {KEYS: for_keys, VALUES: for_values, SOURCE_LENGTHS: torch.zeros_like(tensors[SOURCE_LENGTHS])}


def _product_gradient(plan: Kernels, tensors: Tensors, number: int) -> Tensor:
    """The gradient of a product's result, of all steps (N, n)."""
    if number not in plan.layout.product_alias:
        return tensors[Argument(Kind.GRAD_PRODUCT, number)]
    hoisted, column = plan.layout.product_alias[number]
    width = plan.program.products[number].width
    return tensors[Argument(Kind.GRAD_HOISTED, hoisted)][..., column : column + width]


def _left_of(plan: Kernels, tensors: Tensors, number: int, steps: StepCounts, *, backwards: bool) -> Tensor:
    """The left side of a product, of all steps (N, n)."""
    state = pure_state(plan.program, plan.program.products[number].left)
    if state is None:
        return tensors[Argument(Kind.LEFTS, number)]
    before = Argument(Kind.BEFORE, state)
    if before not in tensors:
        history, start = tensors[Argument(Kind.HISTORY, state)], tensors[Argument(Kind.START, state)]
        tensors[before] = shift(history, start, steps, backwards=backwards)
    return tensors[before]


def _constant_gradients(plan: Kernels, tensors: Tensors, steps: StepCounts, *, backwards: bool) -> dict[int, Tensor]:
    program, layout = plan.program, plan.layout
    constants: dict[int, Tensor] = {}

    def add(constant: int, gradient: Tensor) -> None:
        constants[constant] = constants[constant] + gradient if constant in constants else gradient

    for number, product in enumerate(program.products):
        if product.attention:
            if product.attention.over is not None:
                add(product.attention.over, tensors[Argument(Kind.GRAD_OVER, number)].sum(0))
            continue
        assert product.weight is not None
        gradient = _product_gradient(plan, tensors, number)
        left = _left_of(plan, tensors, number, steps, backwards=backwards)
        add(product.weight, multiply_transposed(gradient, left).t())
        if product.bias is not None:
            add(product.bias, _over_steps(gradient))
    for number, expr in enumerate(layout.vectors):
        assert expr.leaf is not None
        constant = tensors[Argument(Kind.CONSTANT, expr.leaf.place)]
        summed = _over_steps(tensors[Argument(Kind.GRAD_VECTOR, number)], of_steps=plan.lanes is None)
        full = torch.zeros(constant.numel(), dtype=summed.dtype, device=summed.device)
        if expr.leaf.stride:
            full[expr.leaf.offset : expr.leaf.offset + expr.width] = summed
        else:
            full[expr.leaf.offset] = summed.sum()
        add(expr.leaf.place, full.view(constant.shape))
    return constants


def _over_steps(gradient: Tensor, *, of_steps: bool = True) -> Tensor:
    """The sum of all rows; on a GPU by a product if there is one of every step: for its own sum torch takes twice the
    memory of what it adds."""
    if gradient.is_cuda and of_steps:
        with products_in(EXACT, gradient.device):
            return (gradient.new_ones(1, gradient.size(0)) @ gradient)[0]
    return gradient.sum(0)


def shift(history: Tensor, start: Tensor, steps: StepCounts, *, backwards: bool) -> Tensor:
    """The state before each step (N, n), from that after each step and the first one."""
    before = torch.empty_like(history)
    if steps.first is None and (steps.lengths is None or not backwards) and steps.time:
        rows, shifted = (part.view(steps.batch, steps.time, -1) for part in (history, before))
        ahead, behind = (shifted[:, :-1], rows[:, 1:]) if backwards else (shifted[:, 1:], rows[:, :-1])
        ahead.copy_(behind)
        shifted[:, -1 if backwards else 0].copy_(start)
        return before
    first = base = steps.base(history.device)
    if backwards:
        before[:-1] = history[1:]
        before[-1:] = 0  # past the end of the last row, unless that is replaced here
        first = first + (steps.lengths if steps.lengths is not None else steps.time) - 1
    else:
        before[1:] = history[:-1]
    if steps.lengths is None:
        before[first] = start.to(before.dtype)
    else:  # what is written where a row of no steps would be does no harm
        before[torch.maximum(first, base)] = start.to(before.dtype)
    return before
