"""The limit has the matrix products of a layer, all of them and no others."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from weft.bench.recurrence.limit import MatrixProducts, ProductShape, products_of
from weft.nn import CELLS, RNN, Cell
from weft.nn.state import map_state

BATCH, TIME, HIDDEN = 3, 4, 6


def operations(run):
    with FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


def limit(cell, lengths, directions=1):
    products = products_of(cell, torch.float32)
    return MatrixProducts(products, lengths, directions=directions, dtype=torch.float32, device=torch.device("cpu"))


@pytest.mark.parametrize("kind", CELLS)
def test_as_many_operations_as_the_plain_loop(kind):
    cell = CELLS[kind](HIDDEN, HIDDEN)
    rnn = RNN(cell, HIDDEN, HIDDEN, backend="reference")
    x = torch.randn(BATCH, TIME, HIDDEN, requires_grad=True)
    state = map_state(lambda tensor: tensor.requires_grad_(), rnn.initial_state(BATCH, x))

    def passes():
        output, _ = rnn(x, state=state)
        output.sum().backward()

    assert operations(limit(cell, torch.full((BATCH,), TIME))) == operations(passes)


def test_only_real_steps_count_and_both_directions():
    cell = CELLS["lstm"](HIDDEN, HIDDEN)
    six_products = 6 * 2 * HIDDEN * 4 * HIDDEN
    assert operations(limit(cell, torch.tensor([4, 1, 2]))) == 7 * six_products
    assert operations(limit(cell, torch.tensor([4, 1, 2]), directions=2)) == 2 * 7 * six_products


def test_products_of_the_input_and_of_the_state_are_told_apart():
    assert products_of(CELLS["lstm"](2, 3), torch.float32) == [ProductShape(2, 12, False), ProductShape(3, 12, True)]
    assert products_of(CELLS["gru"](2, 3), torch.float32) == [
        ProductShape(2, 9, False),
        ProductShape(3, 6, True),
        ProductShape(3, 3, True),
    ]


class Readout(Cell):
    """h' = tanh(W x + U h), y = V h': the state never sees V."""

    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size)
        self.from_input = nn.Linear(input_size, hidden_size)
        self.from_state = nn.Linear(hidden_size, hidden_size)
        self.show = nn.Linear(hidden_size, hidden_size)

    def step(self, x, h):
        h = torch.tanh(self.from_input(x) + self.from_state(h))
        return self.show(h), h


def test_what_only_the_output_needs_is_done_once():
    assert products_of(Readout(2, 3), torch.float32) == [
        ProductShape(2, 3, False),
        ProductShape(3, 3, True),
        ProductShape(3, 3, False),
    ]
