"""Records ∂L/∂h_t: the gradient of a loss with respect to the state after every step of every layer.

A recurrent layer computes all steps in one kernel, whose gradient with respect to h_t is never a tensor of its own. So
its cells run step by step here, and each state keeps its gradient: what reaches it from above and from all later steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from weft.models import stacks_of
from weft.nn import leaves_of
from weft.nn.recurrent.cell import Cell
from weft.nn.recurrent.layer import Layer


@dataclass
class RecordedStates:
    """The states of one layer in one direction, in the order of the steps, each with its gradient after `backward`."""

    part: str
    """The stack that the layer belongs to: "encoder" or "decoder"; empty for a network by itself."""
    layer: int
    """Its number from the input up, from 1; 0 is the embedding."""
    direction: str
    states: list[Tensor] = field(default_factory=list)
    """(B, H) for each step, or one (B, T, D) for all of them."""

    def norms(self) -> list[float]:
        """The norm of the gradient of each step; zero where the loss does not depend on the state."""
        if len(self.states) == 1 and self.states[0].dim() == 3:
            whole = self.states[0]
            steps = list(torch.zeros_like(whole).unbind(1) if whole.grad is None else whole.grad.unbind(1))
        else:
            steps = [torch.zeros_like(state) if state.grad is None else state.grad for state in self.states]
            steps = steps[::-1] if self.direction == "backward" else steps
        return [float(step.double().norm()) for step in steps]


@contextmanager
def record_states(model: nn.Module) -> Iterator[list[RecordedStates]]:
    """Record the states of all layers of a model, or of an RNN by itself, in the passes inside the block.

    The model is as it was before when the block ends.
    """
    found: list[RecordedStates] = []
    undo: list[Callable[[], None]] = []
    try:
        stacks: dict[str, nn.Module] = {**stacks_of(model)} or {"": model}
        for name, stack in stacks.items():
            _record_stack(name, stack, found, undo)
        yield found
    finally:
        for step in reversed(undo):
            step()


def _record_stack(name: str, stack: nn.Module, found: list[RecordedStates], undo: list[Callable[[], None]]) -> None:
    embedding = getattr(stack, "embedding", None)
    if isinstance(embedding, nn.Module):
        recorded = RecordedStates(name, 0, "")
        found.append(recorded)
        undo.append(embedding.register_forward_hook(_keep_output(recorded)).remove)
    for number, layer in enumerate(_layers(stack), start=1):
        if isinstance(layer, Layer):
            _record_layer(name, number, layer, found, undo)
            continue
        recorded = RecordedStates(name, number, "")
        found.append(recorded)
        undo.append(layer.register_forward_hook(_keep_output(recorded)).remove)


def _layers(stack: nn.Module) -> list[nn.Module]:
    """The layers of a stack from the input up; the last of a transformer comes with the norm after it."""
    each: Callable[[], list[nn.Module]] | None = getattr(stack, "each_layer", None)
    layers = each() if each is not None else list(getattr(stack, "layers", []))
    return [layer[0] if isinstance(layer, nn.ModuleList) else layer for layer in layers]


def _record_layer(
    name: str, number: int, layer: Layer, found: list[RecordedStates], undo: list[Callable[[], None]]
) -> None:
    before = layer.backend
    layer.backend = "reference"
    undo.append(lambda: setattr(layer, "backend", before))
    cells = [cell for cell in layer.cells if isinstance(cell, Cell)]
    directions = ("forward", "backward") if len(cells) == 2 else ("",)
    for cell, direction in zip(cells, directions, strict=True):
        recorded = RecordedStates(name, number, direction)
        found.append(recorded)
        # On the object, before the method of its class; `del` brings that back.
        cell.__dict__["step"] = _keep_state(cell.step, recorded)
        undo.append(lambda cell=cell: cell.__dict__.pop("step"))  # type: ignore[misc]


def _keep_state(step: Callable[..., Any], recorded: RecordedStates) -> Callable[..., Any]:
    def run(x: Tensor, state: Any) -> Any:
        output, after = step(x, state)
        shown = leaves_of(after)[0]
        if shown.requires_grad:
            shown.retain_grad()
        recorded.states.append(shown)
        return output, after

    return run


def _keep_output(recorded: RecordedStates) -> Callable[..., None]:
    def keep(module: nn.Module, inputs: Any, output: Any) -> None:
        del module, inputs
        if isinstance(output, Tensor) and output.requires_grad and output.dim() == 3:
            output.retain_grad()
            recorded.states[:] = [output]

    return keep
