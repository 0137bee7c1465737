"""The first state of a network: the cell's own, learned, drawn, or made by a bridge."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from weft.nn import CELLS, RNN, Cell, CellChoice, leaves_of
from weft.nn.recurrent.s_lstm import SLSTMState


class MemoryState(NamedTuple):
    short: Tensor
    long: Tensor


class FromOnes(Cell):
    """Its own start is no zero, and one of its tensors is wider than the other."""

    state_type = MemoryState

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.from_input = nn.Linear(input_size, hidden_size)

    def step(self, x: Tensor, state: MemoryState) -> tuple[Tensor, MemoryState]:
        short = 0.5 * state.short + torch.tanh(self.from_input(x))
        long = 0.9 * state.long + torch.cat((short, short), dim=-1)
        return short, MemoryState(short, long)

    def zero_state(self, batch: int, like: Tensor) -> MemoryState:
        ones = like.new_ones(batch, self.hidden_size)
        return MemoryState(ones, torch.cat((2 * ones, 3 * ones), dim=-1))


@pytest.mark.parametrize("choice", [*CELLS, FromOnes])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_learned_first_state_begins_as_the_own_one(choice: CellChoice, bidirectional: bool) -> None:
    rnn = RNN(choice, 5, 6, initial="learned", bidirectional=bidirectional)
    plain = RNN(choice, 5, 6, bidirectional=bidirectional)
    assert_close(rnn.initial_state(3, torch.empty(0)), plain.initial_state(3, torch.empty(0)))


def test_a_random_first_state_is_drawn_around_the_own_one() -> None:
    rnn = RNN(FromOnes, 5, 6, initial="random", initial_std=0.5)
    (drawn,) = rnn.initial_state(4000, torch.empty(0))
    assert abs(drawn.short.mean().item() - 1.0) < 0.02
    assert abs(drawn.long.mean().item() - 2.5) < 0.02
    assert abs((drawn.long - torch.tensor([2.0] * 6 + [3.0] * 6)).std().item() - 0.5) < 0.02
    (mean,) = rnn.eval().initial_state(1, torch.empty(0))
    assert_close(mean, FromOnes(5, 6).zero_state(1, torch.empty(0)))


@pytest.mark.parametrize("choice", CELLS)
def test_any_numbers_make_a_first_state_from_which_a_cell_learns(choice: CellChoice) -> None:
    """Outputs and gradients stay finite and of an ordinary size from any first state, however small the input gate."""
    torch.manual_seed(0)
    rnn = RNN(choice, 5, 6)
    x = 20 * torch.randn(8, 9, 5)
    numbers = [torch.randn_like(part).requires_grad_() for part in leaves_of(rnn.initial_state(8, x))]
    given = iter(numbers)
    (own,) = rnn.initial_state(8, x)
    state = (type(own)(*given) if isinstance(own, tuple) else next(given),)
    output, _ = rnn(x, state=rnn.first_state(state))
    output.mean().backward()
    assert output.abs().max() < 1e3
    assert all(part.grad is not None and part.grad.isfinite().all() for part in numbers)
    assert all(weight.grad is None or weight.grad.isfinite().all() for weight in rnn.parameters())


def test_a_state_of_an_s_lstm_weighs_what_it_holds() -> None:
    """|c| ≤ n, and a state that the cell has reached stays the same."""
    rnn = RNN("s_lstm", 5, 6, initial="random")
    x = torch.randn(4, 7, 5)
    (drawn,) = rnn.initial_state(100, x)
    assert isinstance(drawn, SLSTMState)
    assert (drawn.c.abs() <= drawn.n).all()
    output, reached = rnn(x)
    assert output.abs().max() <= 1
    assert_close(rnn.first_state(reached), reached, rtol=0, atol=0)
