"""Cells without a product in the loop over time, and others of their time, against their equations."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.testing import assert_close

from weft.errors import ConfigError
from weft.nn import CELLS, RNN, leaves_of, map_state
from weft.nn.recurrent.cells import build_cell
from weft.nn.recurrent.head_linear import HeadLinear
from weft.nn.recurrent.layer import Backend
from weft.nn.recurrent.qrnn import QRNNState
from weft.nn.recurrent.s_lstm import SLSTMState

TWO, THREE = torch.tensor([[2.0]]), torch.tensor([[3.0]])


def sigma(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def fill(module: nn.Module, weights: list[float], bias: list[float] | None = None) -> None:
    """Gates of a cell with one input and one hidden unit."""
    with torch.no_grad():
        module.weight.view(-1).copy_(torch.tensor(weights))
        if bias is not None:
            module.bias.copy_(torch.tensor(bias))


@pytest.mark.parametrize(
    ("candidate", "a", "expected"),
    [
        ("identity", -0.6, -0.6),
        ("tanh", -0.6, math.tanh(-0.6)),
        ("positive", -0.6, sigma(-0.6)),
        ("positive", 0.6, 1.1),
        ("positive", 0.0, 0.5),
    ],
)
def test_min_gru(candidate: str, a: float, expected: float) -> None:
    cell = CELLS["min_gru"](1, 1, candidate=candidate)
    fill(cell.from_input, [0.5, a / 2], [0.1, 0.0])
    output, h = cell(TWO, THREE)
    z = sigma(1.1)
    assert h.item() == pytest.approx((1 - z) * 3 + z * expected)
    assert output is h


@pytest.mark.parametrize("normalise", [True, False])
def test_min_lstm(normalise: bool) -> None:
    cell = CELLS["min_lstm"](1, 1, normalise=normalise)
    fill(cell.from_input, [0.1, -0.2, 0.3], [0.4, 0.5, 0.6])
    output, h = cell(TWO, THREE)
    f, i = sigma(0.6), sigma(0.1)
    total = f + i if normalise else 1.0
    assert h.item() == pytest.approx((f * 3 + i * 1.2) / total)
    assert output is h


@pytest.mark.parametrize("backend", ["engine", "reference"])
def test_a_min_lstm_averages_by_gates_that_are_both_zero(backend: Backend) -> None:
    """σ(a) / (σ(a) + σ(b)) is σ(a - b) where both are tiny, and its derivative is finite."""
    rnn = RNN("min_lstm", 1, 1, backend=backend)
    cell = rnn.stack()[0].cells[0]
    assert isinstance(cell, CELLS["min_lstm"])
    for f, i in ((-500.0, -501.0), (-3000.0, -2999.5), (-41.0, -39.0), (-90.0, 4.0), (1.0, -2.0)):
        fill(cell.from_input, [0.0, 0.0, 0.0], [f, i, 1.0])
        rnn.zero_grad()
        output, _ = rnn(torch.ones(1, 1, 1), state=(torch.full((1, 1), 3.0),))
        sigmoids = torch.sigmoid(torch.tensor([f, i], dtype=torch.double))
        share = (sigmoids[0] / sigmoids.sum() if sigmoids.sum() > 0 else torch.sigmoid(torch.tensor(f - i))).item()
        assert output.item() == pytest.approx(3 * share + 1 - share, abs=1e-6)
        output.sum().backward()
        assert cell.from_input.bias.grad is not None
        slope = 2 * share * (1 - share)
        expected = [slope * (1 - sigmoids[0].item()), -slope * (1 - sigmoids[1].item()), 1 - share]
        assert cell.from_input.bias.grad.tolist() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("state_in_gates", [True, False])
def test_sru(state_in_gates: bool) -> None:
    cell = CELLS["sru"](1, 1, state_in_gates=state_in_gates, highway_bias=0.5)
    assert cell.from_input.bias.tolist() == [0.0, 0.5, 0.0]
    fill(cell.from_input, [0.1, -0.2, 0.3], [0.4, 0.5, 0.0])
    if state_in_gates:
        fill(cell.from_memory, [0.7, -0.8])
    output, c = cell(TWO, THREE)
    f, r = (sigma(0.6 + 2.1), sigma(0.1 - 2.4)) if state_in_gates else (sigma(0.6), sigma(0.1))
    kept = f * 3 + (1 - f) * 0.6
    assert c.item() == pytest.approx(kept)
    assert output.item() == pytest.approx(r * kept + math.sqrt(1 + 2 * math.exp(0.5)) * (1 - r) * 2)


@pytest.mark.parametrize(("activation", "expected"), [("relu", 0.0), ("tanh", math.tanh(-0.4))])
def test_ind_rnn(activation: str, expected: float) -> None:
    cell = CELLS["ind_rnn"](1, 1, activation=activation)
    fill(cell.from_input, [0.5], [0.1])
    fill(cell.from_state, [-0.5])
    output, h = cell(TWO, THREE)
    assert h.item() == pytest.approx(expected)
    assert output is h


def test_rg_lru() -> None:
    cell = CELLS["rg_lru"](1, 1)
    fill(cell.from_input, [0.1, -0.2], [0.4, 0.5])
    with torch.no_grad():
        cell.decay.fill_(2.0)
    output, h = cell(TWO, THREE)
    a = sigma(2.0) ** (8 * sigma(0.6))
    assert h.item() == pytest.approx(a * 3 + math.sqrt(1 - a * a) * sigma(0.1) * 2, rel=1e-5)
    assert output is h


def test_the_past_of_a_fresh_rg_lru_fades_slowly() -> None:
    decay = torch.sigmoid(CELLS["rg_lru"](3, 500).decay) ** 8
    assert 0.9 - 1e-4 < decay.min() < 0.92
    assert 0.98 < decay.max() < 0.999 + 1e-4


def test_hgrn() -> None:
    cell = CELLS["hgrn"](1, 1, lower_bound=0.25)
    fill(cell.from_input, [0.1, -0.2, 0.3], [0.4, 0.5, 0.6])
    output, c = cell(TWO, THREE)
    f, a = 0.25 + 0.75 * sigma(0.6), 0.1
    kept = f * 3 + (1 - f) * a * sigma(a)
    assert c.item() == pytest.approx(kept)
    assert output.item() == pytest.approx(sigma(1.2) * kept)


def test_janet() -> None:
    cell = CELLS["janet"](1, 1, beta=0.5)
    fill(cell.from_input, [0.1, -0.2], [0.4, 0.5])
    fill(cell.from_state, [0.7, -0.8])
    output, h = cell(TWO, THREE)
    s = 0.6 + 2.1
    assert h.item() == pytest.approx(sigma(s) * 3 + (1 - sigma(s - 0.5)) * math.tanh(0.1 - 2.4))
    assert output is h


def test_minimal_gated() -> None:
    cell = CELLS["minimal_gated"](1, 1)
    fill(cell.from_input, [0.1, -0.2], [0.4, 0.5])
    fill(cell.gate_from_state, [0.7])
    fill(cell.candidate_from_state, [-0.8])
    output, h = cell(TWO, THREE)
    f = sigma(0.6 + 2.1)
    assert h.item() == pytest.approx((1 - f) * 3 + f * math.tanh(0.1 - 0.8 * f * 3))
    assert output is h


def test_qrnn() -> None:
    cell = CELLS["qrnn"](1, 1)
    fill(cell.from_window, [0.1, -0.2, 0.3, 0.4, -0.5, 0.6], [0.4, 0.5, 0.6])
    output, state = cell(TWO, QRNNState(THREE, torch.tensor([[-1.0]])))
    z, f, o = math.tanh(-0.1 - 0.4 + 0.4), sigma(-0.3 + 0.8 + 0.5), sigma(0.5 + 1.2 + 0.6)
    kept = f * 3 + (1 - f) * z
    assert state.c.item() == pytest.approx(kept)
    assert output.item() == pytest.approx(o * kept)
    assert state.inputs.tolist() == [[2.0]]


@pytest.mark.parametrize("window", [1, 2, 4])
def test_the_gates_of_a_qrnn_are_a_causal_convolution(window: int) -> None:
    cell, x = CELLS["qrnn"](3, 4, window=window), torch.randn(2, 6, 3)
    weight = cell.from_window.weight.view(12, window, 3).transpose(1, 2)
    padded = nn.functional.pad(x.transpose(1, 2), (window - 1, 0))
    z, f, o = nn.functional.conv1d(padded, weight, cell.from_window.bias).transpose(1, 2).chunk(3, -1)
    c, expected = torch.zeros(2, 4), []
    for t in range(6):
        keep = torch.sigmoid(f[:, t])
        c = keep * c + (1 - keep) * torch.tanh(z[:, t])
        expected.append(torch.sigmoid(o[:, t]) * c)
    assert_close(RNN(cell, 3, 4)(x)[0], torch.stack(expected, 1))


@pytest.mark.parametrize("forget", ["sigmoid", "exponential"])
def test_an_s_lstm_is_the_one_without_stabiliser(forget: str) -> None:
    cell, x = CELLS["s_lstm"](3, 4, heads=2, forget=forget), torch.randn(2, 6, 3).double()
    cell.double()
    past = torch.cat([torch.block_diag(*gate.weight) for gate in cell.from_state])
    h = c = n = torch.zeros(2, 4).double()
    found, state = [], cell.zero_state(2, x)
    for now in x.unbind(1):
        i, f, g, o = (cell.from_input(now) + linear(h, past)).chunk(4, -1)
        keep = torch.sigmoid(f) if forget == "sigmoid" else torch.exp(f)
        c, n = keep * c + torch.exp(i) * torch.tanh(g), keep * n + torch.exp(i)
        h = torch.sigmoid(o) * c / n
        output, state = cell(now, state)
        found.append(output)
        assert_close(output, h)
    assert isinstance(state, SLSTMState)


def test_an_s_lstm_stays_finite_at_large_gates() -> None:
    cell, state = CELLS["s_lstm"](1, 1), None
    fill(cell.from_input, [60.0, 30.0, 1.0, 1.0])
    output, _ = RNN(cell, 1, 1)(torch.tensor([3.0, -3.0, 3.0, -3.0]).view(1, 4, 1).repeat(1, 20, 1), state=state)
    assert output.isfinite().all()
    assert output.abs().max() <= 1


def test_heads_see_their_own_units_alone() -> None:
    module, x = HeadLinear(6, 9, heads=3), torch.randn(2, 6)
    parts = [linear(part, weight) for part, weight in zip(x.chunk(3, -1), module.weight, strict=True)]
    assert_close(module(x), torch.cat(parts, -1))
    with pytest.raises(ConfigError, match=r"cell\.heads = 4"):
        HeadLinear(6, 6, heads=4)


LINEAR = ["min_gru", "min_lstm", "rg_lru", "hgrn", "qrnn", {"kind": "sru", "state_in_gates": False}]


@pytest.mark.parametrize("choice", LINEAR, ids=str)
def test_cells_that_are_linear_in_their_state(choice: object) -> None:
    """step(x, ½ a + ½ b) = ½ step(x, a) + ½ step(x, b) for the memory, whatever x is."""
    cell, x = build_cell(choice, 3, 4), torch.randn(5, 3)
    like = cell.zero_state(5, x)

    def step(memory: Tensor) -> Tensor:
        state = memory if isinstance(like, Tensor) else like._replace(c=memory)
        return leaves_of(cell(x, state)[1])[0]

    a, b = torch.randn(2, 5, 4)
    assert_close(step((a + b) / 2), (step(a) + step(b)) / 2)


WITHOUT_PRODUCT = ["min_gru", "min_lstm", "rg_lru", "hgrn", "sru", "ind_rnn", {"kind": "qrnn", "window": 1}]


@pytest.mark.parametrize("choice", WITHOUT_PRODUCT, ids=str)
def test_no_product_is_left_in_the_loop(choice: object) -> None:
    assert "stage" not in RNN(choice, 3, 4).explain()


def test_options_that_need_a_bias_are_refused_without_one() -> None:
    with pytest.raises(ConfigError, match="highway_bias"):
        CELLS["sru"](2, 3, highway_bias=1.0, bias=False)
    with pytest.raises(ConfigError, match="lower_bound"):
        CELLS["hgrn"](2, 3, lower_bound=1.0)
    with pytest.raises(ConfigError, match="window"):
        CELLS["qrnn"](2, 3, window=0)


@pytest.mark.parametrize("choice", ["sru", "rg_lru"])
def test_an_input_of_the_hidden_size_needs_no_map(choice: str) -> None:
    assert not list(build_cell(choice, 4, 4).resize.parameters())
    assert map_state(lambda part: part.shape, build_cell(choice, 4, 4).zero_state(2, TWO)) == (2, 4)
