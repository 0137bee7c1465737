"""Recorded states and named values equal those of `cell.step` in a loop, for every cell and every way to run it."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from weft.inspect.recurrent_trace import LayerPass, forget_products, record_layers, run_cell
from weft.nn import CELLS, RNN, Cell
from weft.nn.recurrent.layer import Layer
from weft.nn.state import leaves_of, map_state


class Own(Cell):
    """A user's cell: a stacked sum, a method that makes a gate, a gate made of a gate, an interpolation."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.sums = nn.Linear(input_size + hidden_size, 2 * hidden_size)

    def open(self, total: Tensor) -> Tensor:
        return total.sigmoid()

    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        keep, new = self.sums(torch.cat([x, h], dim=-1)).chunk(2, dim=-1)
        keep = self.open(keep)
        write = 1 - keep
        h = keep * h + write * new.tanh()
        return h, h


class Choosy(Own):
    """A cell that no engine can compile: the step depends on the values of the whole batch."""

    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        if h.sum() > 0:
            return super().step(x, h)
        h = torch.tanh(self.open(x @ self.sums.weight[: self.hidden_size, : self.input_size].T) + h)
        return h, h


ALL = {**CELLS, "own": Own, "choosy": Choosy}

GATES = {
    "elman": [],
    "lstm": ["i", "f", "o"],
    "peephole_lstm": ["i", "f", "o"],
    "coupled_lstm": ["f", "o"],
    "projected_lstm": ["i", "f", "o"],
    "gru": ["r", "u"],
    "gru_reset_after": ["r", "u"],
    "mut1": ["z", "r"],
    "mut2": ["z", "r"],
    "mut3": ["z", "r"],
    "own": ["keep", "write"],
}


def loop(found: LayerPass, row: int) -> tuple[list[Tensor], list[Any]]:
    """The outputs and states of one row, by the cell's step in a loop."""
    length = found.x.size(1) if found.lengths is None else int(found.lengths[row])
    order = range(length) if found.direction == "forward" else range(length - 1, -1, -1)
    outputs: dict[int, Tensor] = {}
    states: dict[int, Any] = {}
    state = map_state(lambda part: part[row : row + 1, order[0]], found.before)
    for t in order:
        outputs[t], state = found.cell.step(found.x[row : row + 1, t], state)
        states[t] = state
    return [outputs[t] for t in range(length)], [states[t] for t in range(length)]


@pytest.mark.covers("I2")
@pytest.mark.parametrize("initial", ["zeros", "learned"])
@pytest.mark.parametrize("kind", ALL)
def test_values_are_those_of_the_step_in_a_loop(kind: str, initial: str) -> None:
    torch.manual_seed(0)
    lengths = None if kind == "choosy" else torch.tensor([7, 3])  # a batch of one row: rows must not meet in the loop
    x = torch.randn(1 if kind == "choosy" else 2, 7, 4)
    both, layers = kind != "choosy", 2
    rnn = RNN(ALL[kind], 4, 6, layers=layers, bidirectional=both, initial=initial).eval()  # type: ignore[arg-type]
    for parameter in rnn.parameters():
        nn.init.normal_(parameter, std=0.5)
    with torch.no_grad(), record_layers(rnn) as passes:
        output, _ = rnn(x, lengths)
    assert [(one.layer, one.direction) for one in passes] == [
        (layer, direction) for layer in (1, 2) for direction in ("forward", "backward")[: 1 + both]
    ]
    for found in passes:
        read = {value.name: value.values for value in found.read().values}
        for row in range(x.size(0)):
            outputs, states = loop(found, row)
            length = len(outputs)
            assert_close(found.outputs[row, :length], torch.cat(outputs), atol=1e-5, rtol=1e-5)
            for mine, *parts in zip(leaves_of(found.after), *map(leaves_of, states), strict=True):
                assert_close(mine[row, :length], torch.cat(parts), atol=1e-5, rtol=1e-5)
                assert any(
                    value.shape == mine.shape and torch.allclose(value[row, :length], mine[row, :length], atol=1e-5)
                    for value in read.values()
                )
    top = torch.cat([one.outputs for one in passes if one.layer == layers], dim=-1)
    assert_close(top, output)


@pytest.mark.covers("I2")
@pytest.mark.parametrize("kind", GATES)
def test_gates_have_their_names_and_values(kind: str) -> None:
    torch.manual_seed(1)
    cell = ALL[kind](4, 6)
    found = run_cell(cell, torch.randn(2, 5, 4)).read()
    gates = {value.name: value.values for value in found.values if value.kind == "gate"}
    assert list(gates) == GATES[kind]
    assert all(bool(((values > 0) & (values < 1)).all()) for values in gates.values())


def test_an_lstm_by_its_equations() -> None:
    torch.manual_seed(2)
    cell = CELLS["lstm"](4, 6)
    found = run_cell(cell, torch.randn(2, 5, 4))
    read = found.read()
    i, f, o, g, h, c = (value.values for value in read.values[:6])
    assert [value.name for value in read.values[:6]] == ["i", "f", "o", "g", "h", "c"]
    assert [value.kind for value in read.values[:6]] == [*["gate"] * 3, "candidate", "state", "state"]
    sums = cell.from_input(found.x) + cell.from_state(found.before.h)
    for gate, total in zip((i, f, o), (sums[..., :6], sums[..., 6:12], sums[..., 18:]), strict=True):
        assert_close(gate, total.sigmoid())
    assert_close(c, f * found.before.c + i * g)
    assert_close(h, o * c.tanh())
    assert [(kept.state, kept.name) for kept in read.kept] == [("c", "f")]


@pytest.mark.covers("I1")
def test_the_product_of_forget_gates_is_the_gradient_along_the_cell_path() -> None:
    torch.manual_seed(3)
    cell = CELLS["lstm"](4, 6)
    found = run_cell(cell, torch.randn(1, 9, 4))
    products = forget_products(found.read().kept[0].values)
    for t in range(9):
        start = found.after.c[:, t].clone().requires_grad_()
        c = start
        for s in range(t + 1, 9):  # gates see the recorded h, which is a constant: only the path of c is left
            c = cell.step(found.x[:, s], type(found.before)(found.before.h[:, s], c))[1].c
        (gradient,) = torch.autograd.grad(c.sum(), start)
        assert_close(products[:, t], gradient)


def test_factors_of_other_states() -> None:
    torch.manual_seed(4)
    x = torch.randn(1, 3, 4)
    for kind, name in (("gru", "1 - u"), ("mut1", "1 - z"), ("own", "keep")):
        found = run_cell(ALL[kind](4, 6), x)
        (kept,) = found.read().kept
        assert (kept.state, kept.name) == ("h", name)
        gates = {value.name: value.values for value in found.read().values}
        assert_close(kept.values, gates["keep"] if kind == "own" else 1 - gates[name[-1]])


def test_nothing_is_left_behind() -> None:
    calls: list[str] = []

    def tracer(frame: Any, event: str, argument: Any) -> None:
        calls.append(event)

    rnn = RNN("gru", 4, 6)
    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        with record_layers(rnn) as passes:
            rnn(torch.randn(1, 3, 4))
        passes[0].read()
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(before)
    with pytest.raises(ValueError, match="inside"), record_layers(rnn):
        raise ValueError("inside")
    assert all(not layer.observers for layer in rnn.modules() if isinstance(layer, Layer))
    assert not any(module._forward_hooks for module in rnn.modules())
    assert all(parameter.grad is None for parameter in rnn.parameters())


def test_steps_of_a_loop_are_one_pass() -> None:
    torch.manual_seed(5)
    rnn = RNN("lstm", 4, 6, layers=2)
    x = torch.randn(2, 5, 4)
    with torch.no_grad(), record_layers(rnn) as whole:
        rnn(x)
    with torch.no_grad(), record_layers(rnn) as stepped:
        state = rnn.initial_state(2, x)
        for x_t in x.unbind(1):
            _, state = rnn.step(x_t, state)
    for one, other in zip(whole, stepped, strict=True):
        for part, same in zip(leaves_of((one.before, one.after)), leaves_of((other.before, other.after)), strict=True):
            assert_close(part, same)
        assert_close(one.outputs, other.outputs)
