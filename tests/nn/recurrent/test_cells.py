"""Each cell against its equations, worked by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from weft.errors import ConfigError
from weft.nn import RNN, Cell
from weft.nn.recurrent import GRU, LSTM, Elman, GRUResetAfter, LSTMState


def sigma(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def fill(linear: nn.Linear, weights: list[float], bias: list[float] | None = None) -> None:
    """Gates of a cell with one input and one hidden unit."""
    with torch.no_grad():
        linear.weight.copy_(torch.tensor(weights)[:, None])
        if bias is not None:
            linear.bias.copy_(torch.tensor(bias))


@pytest.mark.parametrize(
    ("activation", "expected"),
    [("tanh", math.tanh(-0.4)), ("relu", 0.0), ("sigmoid", sigma(-0.4)), ("identity", -0.4)],
)
def test_elman(activation: str, expected: float) -> None:
    cell = Elman(1, 1, activation=activation)
    fill(cell.from_input, [0.5], [0.1])
    fill(cell.from_state, [-0.5])
    output, h = cell(torch.tensor([[1.0]]), torch.tensor([[2.0]]))
    assert h.item() == pytest.approx(expected)
    assert output is h


def test_lstm() -> None:
    cell = LSTM(1, 1)
    fill(cell.from_input, [0.1, 0.2, 0.3, 0.4], [0.5, 0.6, 0.7, 0.8])
    fill(cell.from_state, [-0.1, -0.2, -0.3, -0.4])
    output, state = cell(torch.tensor([[2.0]]), LSTMState(torch.tensor([[1.0]]), torch.tensor([[3.0]])))
    i, f, g, o = sigma(0.2 - 0.1 + 0.5), sigma(0.4 - 0.2 + 0.6), math.tanh(0.6 - 0.3 + 0.7), sigma(0.8 - 0.4 + 0.8)
    assert state.c.item() == pytest.approx(f * 3.0 + i * g)
    assert output.item() == pytest.approx(o * math.tanh(f * 3.0 + i * g))
    assert state.h is output


@pytest.mark.parametrize("reset_after", [False, True])
def test_gru(reset_after: bool) -> None:
    cell = GRUResetAfter(1, 1) if reset_after else GRU(1, 1)
    fill(cell.from_input, [0.1, 0.2, 0.3], [0.4, 0.5, 0.6])
    fill(cell.gates_from_state, [-0.1, -0.2])
    fill(cell.candidate_from_state, [-0.3], [0.9] if reset_after else None)
    _, h = cell(torch.tensor([[2.0]]), torch.tensor([[1.0]]))
    r, u = sigma(0.2 - 0.1 + 0.4), sigma(0.4 - 0.2 + 0.5)
    candidate = math.tanh(0.6 + 0.6 + (r * (-0.3 + 0.9) if reset_after else -0.3 * r))
    assert h.item() == pytest.approx((1 - u) * 1.0 + u * candidate)


def test_parameter_counts() -> None:
    count = {cell: sum(p.numel() for p in cell(7, 5).parameters()) for cell in (Elman, LSTM, GRU, GRUResetAfter)}
    one = 5 * 7 + 5 * 5 + 5
    assert count == {Elman: one, LSTM: 4 * one, GRU: 3 * one, GRUResetAfter: 3 * one + 5}


def test_recurrent_matrices_start_orthogonal_and_input_matrices_by_gate() -> None:
    cell = LSTM(50, 20, forget_bias=2.0)
    for block in cell.from_state.weight.chunk(4):
        assert_close(block @ block.T, torch.eye(20), atol=1e-5, rtol=0)
    bound = math.sqrt(6 / (50 + 20))
    for block in cell.from_input.weight.chunk(4):
        assert 0.95 * bound < block.abs().max() <= bound
    assert_close(cell.from_input.bias, torch.tensor([0.0, 2.0, 0.0, 0.0]).repeat_interleave(20))


def test_zero_state_has_the_named_fields() -> None:
    like = torch.empty(0, dtype=torch.float64)
    state = LSTM(2, 3).zero_state(4, like)
    assert isinstance(state, LSTMState)
    assert state.c.shape == (4, 3)
    assert state.h.dtype == torch.float64
    assert GRU(2, 3).zero_state(4, like).shape == (4, 3)


def test_gradient_of_a_linear_network_is_the_analytic_one() -> None:
    """∂L/∂h_t = Σ_{i=t..T} (Uᵀ)^(T-i) Qᵀ ∂L/∂o_{T+t-i} for outputs o_t = Q h_t."""
    torch.manual_seed(0)
    steps = 6
    cell = Elman(3, 4, activation="identity").double()
    q = torch.randn(2, 4, dtype=torch.float64)
    x, weights = torch.randn(1, steps, 3, dtype=torch.float64), torch.randn(steps, 2, dtype=torch.float64)
    hidden: list[Tensor] = []
    h = torch.zeros(1, 4, dtype=torch.float64)
    for t in range(steps):
        _, h = cell.step(x[:, t], h)
        h.retain_grad()
        hidden.append(h)
    sum((weights[t] * (hidden[t] @ q.T)).sum() for t in range(steps)).backward()
    u = cell.from_state.weight.detach()
    for t in range(steps):
        last = steps - 1
        terms = [torch.linalg.matrix_power(u.T, last - i) @ q.T @ weights[last + t - i] for i in range(t, last + 1)]
        assert_close(hidden[t].grad[0], sum(terms))


def test_a_cell_without_a_step_says_so() -> None:
    with pytest.raises(NotImplementedError, match="Cell must define step"):
        RNN(Cell, 2, 3)(torch.zeros(1, 1, 2))


def test_an_unknown_activation_is_named() -> None:
    with pytest.raises(ConfigError, match=r'"tahn" is not an activation \(did you mean "tanh"\?\)'):
        Elman(2, 3, activation="tahn")
