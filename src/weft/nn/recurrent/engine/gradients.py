"""After the backward loop: the gradients of weights, each by one product over all time steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from weft.nn.recurrent.engine.adjoint import pure_state

if TYPE_CHECKING:
    from weft.nn.recurrent.engine.plan import Kernels, Steps


def input_gradients(plan: Kernels, tensors: dict[str, Tensor], steps: Steps, *, backwards: bool) -> list[Tensor]:
    """The gradients of one direction's inputs, from the buffers that the backward loop has filled."""
    constants = _constant_gradients(plan, tensors, steps, backwards=backwards)
    gradients = []
    for name in plan.input_names:
        if name.startswith("constant"):
            number = int(name.removeprefix("constant"))
            found = constants.get(number)
            gradients.append(torch.zeros_like(tensors[name]) if found is None else found.to(tensors[name].dtype))
        elif name.startswith("shift"):
            hoisted = name.replace("shift", "hoisted")
            summed = tensors.get(f"sum_{hoisted}", tensors[f"grad_{hoisted}"])
            gradients.append(_over_steps(summed).to(tensors[name].dtype))
        else:
            gradients.append(tensors[f"grad_{name}"])
    return gradients


def _constant_gradients(
    plan: Kernels, tensors: dict[str, Tensor], steps: Steps, *, backwards: bool
) -> dict[int, Tensor]:
    program, layout = plan.program, plan.layout
    constants: dict[int, Tensor] = {}

    def add(constant: int, gradient: Tensor) -> None:
        constants[constant] = constants[constant] + gradient if constant in constants else gradient

    for number, product in enumerate(program.products):
        if number in layout.product_alias:
            hoisted, column = layout.product_alias[number]
            gradient = tensors[f"grad_hoisted{hoisted}"][..., column : column + product.width]
        else:
            gradient = tensors[f"grad_product{number}"]
        state = pure_state(program, product.left)
        if state is None:
            left = tensors[f"lefts{number}"]
        else:
            if f"before{state}" not in tensors:
                tensors[f"before{state}"] = shift(
                    tensors[f"history{state}"], tensors[f"start{state}"], steps, backwards=backwards
                )
            left = tensors[f"before{state}"]
        add(product.weight, (gradient.t() @ left).t())
        if product.bias is not None:
            add(product.bias, _over_steps(gradient))
    for number, expr in enumerate(layout.vectors):
        assert expr.leaf is not None
        constant = tensors[f"constant{expr.leaf.place}"]
        summed = _over_steps(tensors[f"grad_vector{number}"])
        full = torch.zeros(constant.numel(), dtype=summed.dtype, device=summed.device)
        if expr.leaf.stride:
            full[expr.leaf.offset : expr.leaf.offset + expr.width] = summed
        else:
            full[expr.leaf.offset] = summed.sum()
        add(expr.leaf.place, full.view(constant.shape))
    return constants


def _over_steps(gradient: Tensor) -> Tensor:
    """The sum of all rows; on a GPU by a product: for its own sum torch takes twice the memory of what it adds."""
    if gradient.is_cuda:
        return (gradient.new_ones(1, gradient.size(0)) @ gradient)[0]
    return gradient.sum(0)


def shift(history: Tensor, start: Tensor, steps: Steps, *, backwards: bool) -> Tensor:
    """The state before each step (N, n), from that after each step and the first one."""
    before = torch.empty_like(history)
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
