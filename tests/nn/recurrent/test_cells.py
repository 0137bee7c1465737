"""Each cell against its equations, worked by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from weft.errors import ConfigError
from weft.nn import CELLS, RNN, Cell, map_state
from weft.nn.recurrent import (
    GRU,
    LSTM,
    MUT1,
    MUT2,
    MUT3,
    CoupledLSTM,
    Elman,
    FeedbackState,
    GRUResetAfter,
    LSTMState,
    PeepholeLSTM,
    ProjectedLSTM,
)

ONE = torch.tensor([[1.0]])
TWO = torch.tensor([[2.0]])


def sigma(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def fill(linear: nn.Linear, weights: list[float], bias: list[float] | None = None) -> None:
    """Gates of a cell with one input and one hidden unit."""
    with torch.no_grad():
        linear.weight.copy_(torch.tensor(weights)[:, None])
        if bias is not None:
            linear.bias.copy_(torch.tensor(bias))


@pytest.mark.covers("R1")
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


@pytest.mark.covers("R1")
def test_elman_with_feedback() -> None:
    cell = Elman(1, 1, feedback=True)
    fill(cell.from_input, [0.5], [0.1])
    fill(cell.from_state, [-0.5])
    fill(cell.to_input, [3.0])
    fill(cell.to_output, [0.7], [0.2])
    output, state = cell(TWO, FeedbackState(h=ONE, y=torch.tensor([[0.3]])))
    h = math.tanh(0.5 * (2.0 + 3.0 * 0.3) - 0.5 + 0.1)
    assert state.h.item() == pytest.approx(h)
    assert output.item() == pytest.approx(math.tanh(0.7 * h + 0.2))
    assert state.y is output
    zeros = cell.zero_state(2, ONE)
    assert isinstance(zeros, FeedbackState)
    assert zeros.h is not zeros.y


@pytest.mark.covers("R2")
@pytest.mark.parametrize("candidate", ["tanh", "sigmoid"])
def test_lstm(candidate: str) -> None:
    cell = LSTM(1, 1, candidate=candidate)
    fill(cell.from_input, [0.1, 0.2, 0.3, 0.4], [0.5, 0.6, 0.7, 0.8])
    fill(cell.from_state, [-0.1, -0.2, -0.3, -0.4])
    output, state = cell(TWO, LSTMState(h=ONE, c=torch.tensor([[3.0]])))
    i, f, o = sigma(0.2 - 0.1 + 0.5), sigma(0.4 - 0.2 + 0.6), sigma(0.8 - 0.4 + 0.8)
    g = (math.tanh if candidate == "tanh" else sigma)(0.6 - 0.3 + 0.7)
    assert state.c.item() == pytest.approx(f * 3.0 + i * g)
    assert output.item() == pytest.approx(o * math.tanh(f * 3.0 + i * g))
    assert state.h is output


@pytest.mark.covers("R2")
def test_projected_lstm() -> None:
    cell = ProjectedLSTM(1, 1, projection=2)
    fill(cell.from_input, [0.1, 0.2, 0.3, 0.4], [0.5, 0.6, 0.7, 0.8])
    fill(cell.project, [1.5, -0.5])
    with torch.no_grad():
        cell.from_state.weight.copy_(torch.tensor([[-0.1, 0.0], [-0.2, 0.0], [-0.3, 0.0], [0.0, -0.4]]))
    output, state = cell(TWO, LSTMState(h=torch.tensor([[1.0, 0.5]]), c=torch.tensor([[3.0]])))
    i, f, g, o = sigma(0.2 - 0.1 + 0.5), sigma(0.4 - 0.2 + 0.6), math.tanh(0.6 - 0.3 + 0.7), sigma(0.8 - 0.2 + 0.8)
    c = f * 3.0 + i * g
    assert state.c.item() == pytest.approx(c)
    assert output[0].tolist() == pytest.approx([1.5 * o * math.tanh(c), -0.5 * o * math.tanh(c)])
    assert state.h is output


@pytest.mark.covers("R3")
@pytest.mark.parametrize("peepholes", ["diagonal", "full"])
def test_peephole_lstm(peepholes: str) -> None:
    cell = PeepholeLSTM(1, 1, peepholes=peepholes)
    fill(cell.from_input, [0.1, 0.2, 0.3, 0.4], [0.5, 0.6, 0.7, 0.8])
    fill(cell.from_state, [-0.1, -0.2, -0.3, -0.4])
    with torch.no_grad():
        cell.gates_from_memory.weight.view(-1).copy_(torch.tensor([0.25, -0.5]))
        cell.output_from_memory.weight.view(-1).copy_(torch.tensor([2.0]))
    output, state = cell(TWO, LSTMState(h=ONE, c=torch.tensor([[3.0]])))
    i, f = sigma(0.2 - 0.1 + 0.25 * 3.0 + 0.5), sigma(0.4 - 0.2 - 0.5 * 3.0 + 0.6)
    c = f * 3.0 + i * math.tanh(0.6 - 0.3 + 0.7)
    assert state.c.item() == pytest.approx(c)
    assert output.item() == pytest.approx(sigma(0.8 - 0.4 + 2.0 * c + 0.8) * math.tanh(c))


@pytest.mark.covers("R3")
def test_a_diagonal_peephole_is_a_full_one_with_nothing_beside_the_diagonal() -> None:
    diagonal, full = PeepholeLSTM(3, 4), PeepholeLSTM(3, 4, peepholes="full")
    full.load_state_dict(diagonal.state_dict() | {k: v for k, v in full.state_dict().items() if "memory" in k})
    with torch.no_grad():
        for name in ("gates_from_memory", "output_from_memory"):
            weight = getattr(diagonal, name).weight.normal_()
            getattr(full, name).weight.copy_(torch.cat([torch.diag(part) for part in weight.split(4)]))
    x, state = torch.randn(2, 3), LSTMState(torch.randn(2, 4), torch.randn(2, 4))
    assert_close(diagonal(x, state), full(x, state))


def test_a_fresh_peephole_lstm_is_an_lstm() -> None:
    plain, seeing = LSTM(3, 4), PeepholeLSTM(3, 4)
    seeing.load_state_dict(plain.state_dict(), strict=False)
    x, state = torch.randn(2, 3), LSTMState(torch.randn(2, 4), torch.randn(2, 4))
    assert_close(seeing(x, state), plain(x, state))


@pytest.mark.covers("R4")
def test_coupled_lstm() -> None:
    cell = CoupledLSTM(1, 1)
    fill(cell.from_input, [0.2, 0.3, 0.4], [0.6, 0.7, 0.8])
    fill(cell.from_state, [-0.2, -0.3, -0.4])
    output, state = cell(TWO, LSTMState(h=ONE, c=torch.tensor([[3.0]])))
    f, g, o = sigma(0.4 - 0.2 + 0.6), math.tanh(0.6 - 0.3 + 0.7), sigma(0.8 - 0.4 + 0.8)
    assert state.c.item() == pytest.approx(f * 3.0 + (1 - f) * g)
    assert output.item() == pytest.approx(o * math.tanh(f * 3.0 + (1 - f) * g))


@pytest.mark.covers("R5", "R5b")
@pytest.mark.parametrize("activation", ["tanh", "sigmoid"])
@pytest.mark.parametrize("update", ["candidate", "state"])
@pytest.mark.parametrize("kind", [GRU, GRUResetAfter])
def test_gru(kind: type[GRU | GRUResetAfter], update: str, activation: str) -> None:
    cell = kind(1, 1, update=update, candidate=activation)
    fill(cell.from_input, [0.1, 0.2, 0.3], [0.4, 0.5, 0.6])
    fill(cell.gates_from_state, [-0.1, -0.2])
    fill(cell.candidate_from_state, [-0.3], [0.9] if kind is GRUResetAfter else None)
    _, h = cell(TWO, ONE)
    r, u = sigma(0.2 - 0.1 + 0.4), sigma(0.4 - 0.2 + 0.5)
    a = 0.6 + 0.6 + (r * (-0.3 + 0.9) if kind is GRUResetAfter else -0.3 * r)
    candidate = math.tanh(a) if activation == "tanh" else sigma(a)
    taken = u if update == "candidate" else 1 - u
    assert h.item() == pytest.approx((1 - taken) * 1.0 + taken * candidate)


OPTIONS = {"elman": {"feedback": True}, "peephole_lstm": {"peepholes": "full"}, "projected_lstm": {"projection": 2}}


@pytest.mark.covers("R2b")
@pytest.mark.parametrize("name", CELLS)
def test_a_cell_without_bias_is_one_whose_biases_are_zero(name: str) -> None:
    for options in ({}, OPTIONS.get(name, {})):
        bare, biased = (CELLS[name](3, 4, bias=bias, **options) for bias in (False, True))
        assert not [own for own, _ in bare.named_parameters() if "bias" in own]
        missing = biased.load_state_dict(bare.state_dict(), strict=False).missing_keys
        assert missing
        with torch.no_grad():
            for own in missing:
                biased.get_parameter(own).zero_()
        x = torch.randn(2, 3)
        state = map_state(torch.randn_like, bare.zero_state(2, x))
        assert_close(bare(x, state), biased(x, state))


def test_a_cell_without_bias_has_no_forget_bias() -> None:
    with pytest.raises(ConfigError, match=r"cell\.forget_bias = 2: there is no bias to start there"):
        LSTM(3, 4, bias=False, forget_bias=2.0)


@pytest.mark.covers("R6")
def test_mut1() -> None:
    cell = MUT1(1, 1)
    fill(cell.from_input, [0.1, 0.2], [0.4, 0.5])
    fill(cell.reset_from_state, [-0.2])
    fill(cell.candidate_from_state, [-0.3], [0.6])
    _, h = cell(TWO, ONE)
    z, r = sigma(0.2 + 0.4), sigma(0.4 - 0.2 + 0.5)
    assert h.item() == pytest.approx(math.tanh(-0.3 * r + math.tanh(2.0) + 0.6) * z + 1.0 * (1 - z))


@pytest.mark.covers("R6")
def test_mut2() -> None:
    cell = MUT2(1, 1)
    fill(cell.from_input, [0.1, 0.3], [0.4, 0.6])
    fill(cell.gates_from_state, [-0.1, -0.2])
    fill(cell.candidate_from_state, [-0.3])
    with torch.no_grad():
        cell.reset_bias.fill_(0.5)
    _, h = cell(TWO, ONE)
    z, r = sigma(0.2 - 0.1 + 0.4), sigma(2.0 - 0.2 + 0.5)
    assert h.item() == pytest.approx(math.tanh(-0.3 * r + 0.6 + 0.6) * z + 1.0 * (1 - z))


@pytest.mark.covers("R6")
def test_mut3() -> None:
    cell = MUT3(1, 1)
    fill(cell.from_input, [0.1, 0.2, 0.3], [0.4, 0.5, 0.6])
    fill(cell.update_from_state, [-0.1])
    fill(cell.reset_from_state, [-0.2])
    fill(cell.candidate_from_state, [-0.3])
    _, h = cell(TWO, ONE)
    z, r = sigma(0.2 - 0.1 * math.tanh(1.0) + 0.4), sigma(0.4 - 0.2 + 0.5)
    assert h.item() == pytest.approx(math.tanh(-0.3 * r + 0.6 + 0.6) * z + 1.0 * (1 - z))


@pytest.mark.covers("R6")
@pytest.mark.parametrize("kind", [MUT1, MUT2])
def test_a_mut_cell_brings_the_input_to_size_only_where_it_differs(kind: type[MUT1 | MUT2]) -> None:
    torch.manual_seed(0)
    assert not list(kind(4, 4).resize.parameters())
    cell = kind(3, 4)
    x, h = torch.randn(2, 3), torch.randn(2, 4)
    same = kind(4, 4)
    shared = {name: value for name, value in cell.state_dict().items() if "state" in name or name == "reset_bias"}
    same.load_state_dict(shared, strict=False)
    with torch.no_grad():
        # An input that is resized already meets matrices that undo it.
        same.from_input.weight.copy_(cell.from_input.weight @ torch.linalg.pinv(cell.resize.weight))
        same.from_input.bias.copy_(cell.from_input.bias)
    assert_close(cell(x, h), same(cell.resize(x), h), rtol=1e-4, atol=1e-5)


@pytest.mark.covers("R12")
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
