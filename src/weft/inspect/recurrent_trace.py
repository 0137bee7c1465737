"""A record of recurrent layers in one pass: their states at every step and the named values of their cells.

with record_layers(model) as passes:
    model(tokens, lengths)
passes[0].after                 the states after every step
passes[0].read().values         gates, candidates and states by their names in the cell's equations
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from weft.errors import ConfigError
from weft.inspect.step_values import Kept, StepRead, StepValue, read_step
from weft.nn.recurrent.cell import Cell
from weft.nn.recurrent.engine.known import plan_of
from weft.nn.recurrent.layer import Layer
from weft.nn.recurrent.rnn import RNN
from weft.nn.state import State, leaves_of, map_state, with_leaves

Direction = Literal["forward", "backward"]


class Call(NamedTuple):
    """One run of a layer: x (B, T, I), lengths (B) or None, the first state, outputs (B, T, O) of each direction."""

    x: Tensor
    lengths: Tensor | None
    state: State
    outputs: list[Tensor]


@dataclass(frozen=True)
class LayerPass:
    """One layer in one direction, during one pass. Tensors are (B, T, n), in the order of the input."""

    path: str
    """The path of its network in the model: "encoder.rnn"; "" for a network that is the model."""
    layer: int
    """From 1, at the input."""
    direction: Direction
    cell: Cell
    x: Tensor
    lengths: Tensor | None
    before: State
    """The state before every step."""
    after: State
    """The state after every step."""
    outputs: Tensor

    def read(self) -> StepRead:
        """Return the named values (B, T, n) of all steps, those of `cell.step` called once for each."""
        batch, time = self.x.shape[:2]
        if isinstance(plan_of(self.cell), str):  # what it does may depend on values or on the number of rows
            steps = [
                read_step(self.cell, self.x[:, t], map_state(lambda part, t=t: part[:, t], self.before))
                for t in range(time)
            ]
            return _stack(steps)
        found = read_step(self.cell, self.x.flatten(0, 1), map_state(lambda part: part.flatten(0, 1), self.before))
        return _reshape(found, lambda values: values.reshape(batch, time, -1))

    def choose_state(self, name: str) -> tuple[str, Tensor]:
        """Return the name and the values (B, T, n) of a state after every step; without a name, of the output."""
        names = name_states(self.cell, self.x[:, 0])
        return (names.output, self.outputs) if not name else (name, leaves_of(self.after)[names.place(name)])


class StateNames(NamedTuple):
    """The names of the tensors of a cell's state, and that of its output."""

    states: list[str]
    output: str

    def place(self, name: str) -> int:
        """The place of a tensor in the state; raise for a name that it does not have."""
        if name not in self.states:
            cure = f"choose from {', '.join(self.states)}"
            raise ConfigError("the cell has no such state", where=f'state = "{name}"', cure=cure)
        return self.states.index(name)


def name_states(cell: Cell, like: Tensor) -> StateNames:
    """Find the names by one step on zeros of the type and device of a tensor."""
    x = like.new_zeros(1, cell.input_size)
    read = read_step(cell, x, cell.zero_state(1, x))
    return StateNames(read.states, read.output)


def forget_products(kept: Tensor) -> Tensor:
    """kept (B, T, n), f_t of c_t = f_t ⊙ c_{t-1} + … -> ∂c_T/∂c_t = f_{t+1} ⊙ … ⊙ f_T (B, T, n), which is 1 at t = T.

    This is the derivative along the direct path from state to state, on which the gates are constants. A row that ends
    earlier has ones past its end. For the backward direction flip the time of both.
    """
    later = torch.cat([kept[:, 1:], torch.ones_like(kept[:, :1])], dim=1)
    return later.flip(1).cumprod(1).flip(1)


@contextmanager
def record_layers(model: nn.Module) -> Iterator[list[LayerPass]]:
    """Record what the recurrent layers of a model do in this thread; the list is filled at the end of the block.

    A layer that runs several times in a row, step by step for example, has the steps of all its runs.
    """
    found: list[LayerPass] = []
    layers = list(layers_of(model))
    calls: list[list[Call]] = [[] for _ in layers]
    here = threading.get_ident()

    def observe(mine: list[Call], x: Tensor, lengths: Tensor | None, state: State, outputs: list[Tensor]) -> None:
        if threading.get_ident() == here:
            mine.append(Call(x, lengths, state, outputs))

    observers = [partial(observe, mine) for mine in calls]
    for (_, _, layer), observer in zip(layers, observers, strict=True):
        layer.observers.append(observer)
    try:
        yield found
    finally:
        for (_, _, layer), observer in zip(layers, observers, strict=True):
            layer.observers.remove(observer)
    for (path, number, layer), mine in zip(layers, calls, strict=True):
        found += _passes(path, number, layer, [call for call in mine if call.x.size(1)])


def run_cell(cell: Cell, x: Tensor) -> LayerPass:
    """Run a bare cell over x (B, T, I) from its zero state."""
    with record_layers(rnn := RNN(cell, cell.input_size, cell.hidden_size)) as passes, torch.no_grad():
        rnn(x)
    return passes[0]


def layers_of(model: nn.Module) -> Iterator[tuple[str, int, Layer]]:
    for path, module in model.named_modules():
        if isinstance(module, RNN):
            for number, layer in enumerate(module.layers, 1):
                assert isinstance(layer, Layer)
                yield path, number, layer


@torch.no_grad()
def _passes(path: str, number: int, layer: Layer, calls: list[Call]) -> Iterator[LayerPass]:
    """Join the records of several calls of a layer with the same number of rows into one."""
    calls = [call for call in calls if call.x.size(0) == calls[0].x.size(0)]
    if not calls:
        return
    every = [_states(layer, call) for call in calls]
    lengths = calls[0].lengths if len(calls) == 1 else None
    directions: tuple[Direction, ...] = ("forward", "backward")
    for place, (cell, direction) in enumerate(zip(layer.cells, directions, strict=False)):
        assert isinstance(cell, Cell)
        befores, afters = zip(*(states[place] for states in every), strict=True)
        yield LayerPass(
            path,
            number,
            direction,
            cell,
            torch.cat([call.x for call in calls], dim=1).detach(),
            lengths,
            map_state(lambda *parts: torch.cat(parts, dim=1), *befores),
            map_state(lambda *parts: torch.cat(parts, dim=1), *afters),
            torch.cat([call.outputs[place] for call in calls], dim=1).detach(),
        )


def _states(layer: Layer, call: Call) -> list[tuple[State, State]]:
    """The states before and after every step of a call, in each direction."""
    starts = [call.state] if len(layer.cells) == 1 else list(call.state)
    found = []
    for place, after in enumerate(layer.histories(call.x, call.lengths, call.state)):
        pairs = zip(leaves_of(starts[place]), leaves_of(after), strict=True)
        before = [_shift(start, states, call.lengths, backwards=place == 1) for start, states in pairs]
        found.append((with_leaves(after, before), after))
    return found


def _shift(start: Tensor, after: Tensor, lengths: Tensor | None, *, backwards: bool) -> Tensor:
    """start (B, n), after (B, T, n) -> the state before every step."""
    start = start.detach().to(after.dtype)[:, None]
    if not backwards:
        return torch.cat([start, after[:, :-1]], dim=1)
    before = torch.cat([after[:, 1:], start], dim=1)
    if lengths is None:
        return before
    last = torch.arange(after.size(1), device=after.device) == lengths[:, None] - 1
    return torch.where(last[..., None], start, before)


def _reshape(found: StepRead, shape: Callable[[Tensor], Tensor]) -> StepRead:
    values = [value._replace(values=shape(value.values)) for value in found.values]
    kept = [one._replace(values=shape(one.values)) for one in found.kept]
    return found._replace(values=values, kept=kept)


def _stack(steps: list[StepRead]) -> StepRead:
    """The values of steps one after the other; a value that a step does not have is NaN there."""
    return steps[0]._replace(
        values=[
            StepValue(one.name, one.kind, _join([{v.name: v.values for v in step.values} for step in steps], one.name))
            for one in {value.name: value for step in steps for value in step.values}.values()
        ],
        kept=[
            Kept(one.state, one.name, _join([{k.state: k.values for k in step.kept} for step in steps], one.state))
            for one in {kept.state: kept for step in steps for kept in step.kept}.values()
        ],
    )


def _join(steps: list[dict[str, Tensor]], name: str) -> Tensor:
    like = next(step[name] for step in steps if name in step)
    return torch.stack([step.get(name, torch.full_like(like, torch.nan)) for step in steps], dim=1)
