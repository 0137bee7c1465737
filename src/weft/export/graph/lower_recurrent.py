"""Recurrent networks as graphs: layers, directions, skips, first states; whole sequences and single steps.

A state is a list of values for each layer: the tensors of its cell, of both directions one after the other.
"""

from __future__ import annotations

import torch
from torch import Tensor

from weft.export.graph.build import Builder
from weft.export.graph.cell import leaf_names, lower_cell
from weft.export.graph.graph import Value
from weft.nn import RNN
from weft.nn.recurrent.cell import Cell
from weft.nn.recurrent.layer import Layer
from weft.nn.state import State, leaves_of

States = list[list[Value]]


def first_states(build: Builder, rnn: RNN) -> States:
    """The state before the first step: the cell's own, or learned."""
    return [_first_states(build, layer) for layer in layers_of(rnn)]


def given_states(build: Builder, rnn: RNN, values: list[Value]) -> list[Value]:
    """The first state of a network of one direction, made of given values; see `Cell.first_state`."""
    found: list[Value] = []
    for layer, given in zip(layers_of(rnn), by_layer(rnn, values), strict=True):
        (cell,) = cells_of(layer)
        if type(cell).first_state is not Cell.first_state:
            x = build.constant(torch.zeros(cell.input_size, dtype=getattr(torch, build.dtype)))
            _, *given = build.inline(lower_cell(_FirstState(cell), build.weights), [x, *given])
        found += given
    return found


class _FirstState(Cell):
    """A cell's `first_state` in the place of its step."""

    def __init__(self, cell: Cell) -> None:
        super().__init__(cell.input_size, cell.hidden_size)
        self.output_size = cell.input_size
        self.cell = cell

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        return x, self.cell.first_state(state)

    def zero_state(self, batch: int, like: Tensor) -> State:
        return self.cell.zero_state(batch, like)


def _first_states(build: Builder, layer: Layer) -> list[Value]:
    found: list[Value] = []
    for number, cell in enumerate(cells_of(layer)):
        like = next(cell.parameters(), torch.empty(0, dtype=getattr(torch, build.dtype)))
        state = cell.zero_state(1, like)
        if layer.initial is not None:
            state = cell.first_state(layer.initial[number](state))
        found += [build.constant(part[0].detach()) for part in leaves_of(state)]
    return found


def run(build: Builder, rnn: RNN, x: Value, states: States) -> tuple[Value, States]:
    """x (T, I) -> outputs (T, D), the states after the last step."""
    finals: States = []
    stack = layers_of(rnn)
    for layer, start in zip(stack, states, strict=True):
        outputs, final = _directions(build, layer, x, start)
        finals.append(final)
        x, output = _climb(build, rnn, layer, x, _join(build, layer, outputs))
    return output, finals


def last(build: Builder, rnn: RNN, x: Value) -> Value:
    """x (T, I) -> (D), the output with which a row ends: each direction at its own end."""
    found = x
    for layer, start in zip(layers_of(rnn), first_states(build, rnn), strict=True):
        outputs, _ = _directions(build, layer, x, start)
        ends = [build.last(outputs[0]), *(build.first(back) for back in outputs[1:])]
        found = _join(build, layer, ends)
        if layer.project is not None:  # a row without steps has no bias either
            some = build.binary("gt", build.length(x), build.whole(0))
            found = build.where(some, found, build.number(0.0))
        if adds(rnn, layer, x):
            found = build.add(found, _past_ends(build, layer, x))
        x, _ = _climb(build, rnn, layer, x, _join(build, layer, outputs))
    return found


def step(build: Builder, rnn: RNN, x: Value, states: States) -> tuple[Value, States]:
    """x (I) -> output (D), the next states."""
    finals: States = []
    for layer, state in zip(layers_of(rnn), states, strict=True):
        (cell,) = cells_of(layer)
        output, *after = build.inline(lower_cell(cell, build.weights), [x, *state])
        finals.append(after)
        x, output = _climb(build, rnn, layer, x, output)
    return output, finals


def state_names(rnn: RNN) -> list[str]:
    """A name for each tensor of the state of a network of one direction."""
    named = [(number, cells_of(layer)[0]) for number, layer in enumerate(layers_of(rnn), 1)]
    return [name for number, cell in named for name in leaf_names(cell, f"layer{number}")]


def by_layer(rnn: RNN, values: list[Value]) -> States:
    """Values in the order of `state_names`, by layer."""
    counts = [len(leaf_names(cells_of(layer)[0], "")) for layer in layers_of(rnn)]
    rest = iter(values)
    return [[next(rest) for _ in range(count)] for count in counts]


def adds(rnn: RNN, layer: Layer, x: Value) -> bool:
    """Whether the input of a layer is added to its output."""
    return rnn.skip == "residual" and x.shape[-1] == layer.output_size


def layers_of(rnn: RNN) -> list[Layer]:
    return [layer for layer in rnn.layers if isinstance(layer, Layer)]


def cells_of(layer: Layer) -> list[Cell]:
    return [cell for cell in layer.cells if isinstance(cell, Cell)]


def _climb(build: Builder, rnn: RNN, layer: Layer, x: Value, output: Value) -> tuple[Value, Value]:
    """The input of the next layer, and the output of this one with what goes past it."""
    if adds(rnn, layer, x):
        output = build.add(output, x)
    return (build.concat([x, output]) if rnn.skip == "dense" else output), output


def _directions(build: Builder, layer: Layer, x: Value, states: list[Value]) -> tuple[list[Value], list[Value]]:
    """The outputs (T, H) of each direction in the order of x, and the last states."""
    outputs, finals, cells = [], list[Value](), cells_of(layer)
    count = len(states) // len(cells)
    for reverse, cell in enumerate(cells):
        body, start = lower_cell(cell, build.weights), states[reverse * count : (reverse + 1) * count]
        output, after = build.recur(body, x, start, reverse=bool(reverse), cell=cell)
        outputs.append(output)
        finals += after
    return outputs, finals


def _join(build: Builder, layer: Layer, outputs: list[Value]) -> Value:
    """The outputs of each direction -> one output."""
    if len(outputs) == 1:
        return outputs[0]
    if layer.merge in ("sum", "mean"):
        both = build.add(*outputs)
        return both if layer.merge == "sum" else build.scaled(both, 0.5)
    both = build.concat(outputs)
    return both if layer.project is None else build.linear(both, layer.project.weight, layer.project.bias)


def _past_ends(build: Builder, layer: Layer, x: Value) -> Value:
    """The residual input of a layer at the steps where its directions end."""
    end = build.last(x)
    if len(layer.cells) == 1:
        return end
    begin = build.first(x)
    if layer.merge != "concat":
        return build.scaled(build.add(end, begin), 0.5)
    size = x.shape[-1]
    assert isinstance(size, int)
    return build.concat([build.slice(end, 0, size // 2), build.slice(begin, size // 2, size)])
