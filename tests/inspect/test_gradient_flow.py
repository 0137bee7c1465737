"""Gradients by time step: the figures of the texts, agreement with autograd, and models left as they were."""

from __future__ import annotations

import json
import math

import pytest
import torch
from torch import nn

import weft
from weft.errors import ConfigError
from weft.inspect import GradientFlow, Nothing, gradients, norm_shrinkage
from weft.inspect.fresh_cells import compare_cells, flow_through, state_matrices
from weft.inspect.gradient_chart import draw_panel
from weft.inspect.gradient_flow import FlowLine
from weft.nn import CELLS, RNN, Cell
from weft.nn.recurrent.layer import Layer

pytestmark = pytest.mark.usefixtures("extras")


class MinimalGatedUnit(Cell):
    """A cell of a user's own: its matrices have names that weft does not know."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.into = nn.Linear(input_size, 2 * hidden_size)
        self.gate = nn.Linear(hidden_size, hidden_size, bias=False)
        self.kept = nn.Linear(hidden_size, hidden_size, bias=False)

    def step(self, x, h):
        gate, candidate = self.into(x).chunk(2, dim=-1)
        f = torch.sigmoid(gate + self.gate(h))
        h = (1 - f) * h + f * torch.tanh(candidate + self.kept(f * h))
        return h, h


@pytest.mark.covers("I1")
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_an_rnn_forgets_and_an_lstm_by_its_forget_bias(seed):
    """128 steps, 128 units, 64 inputs from N(0, 1), matrices from N(0, 0.1²)."""
    assert 1e-18 < flow_through("elman", seed=seed).ratio < 1e-14
    ratios = {bias: flow_through("lstm", forget_bias=bias, seed=seed).ratio for bias in (0.0, 1.0, 3.0)}
    assert ratios[0.0] < 1e-18
    assert 1e-11 < ratios[1.0] < 1e-7
    assert 0.1 < ratios[3.0] < 10


@pytest.mark.covers("I1")
def test_the_bound_of_the_spectral_norm_holds_at_every_step():
    flow = flow_through("elman", length=40, hidden=16, radius=0.8)
    weight = flow.spectral_norm
    assert flow.spectral_radius == pytest.approx(0.8)
    assert weight >= 0.8
    assert flow.bound[-1] == pytest.approx(flow.norms[-1])
    assert flow.bound[0] == pytest.approx(flow.norms[-1] * weight**39)
    assert all(norm <= bound * (1 + 1e-9) for norm, bound in zip(flow.norms, flow.bound, strict=True))


def test_a_linear_rnn_has_the_gradient_of_its_equation():
    """∂L/∂h_t = (W_hhᵀ)^(T-t) 1 for L = Σ h_T and S the identity."""
    torch.manual_seed(0)
    cell = CELLS["elman"](3, 4, activation="identity").double()
    flow = flow_through(cell, length=6, hidden=4, inputs=3)
    expected, wanted = torch.ones(4, dtype=torch.float64), []
    for _ in range(6):
        wanted.insert(0, float(expected.norm()))
        expected = cell.from_state.weight.detach().T @ expected
    assert flow.norms == pytest.approx(wanted)


WITHOUT_PRODUCT = {"ind_rnn", "sru", "min_gru", "min_lstm", "rg_lru", "hgrn"}
"""Cells whose state meets no matrix."""


@pytest.mark.parametrize("kind", [*CELLS, MinimalGatedUnit])
def test_matrices_of_the_state_are_found_by_what_they_do(kind):
    cell = (CELLS[kind] if isinstance(kind, str) else kind)(3, 5)
    found = state_matrices(cell)
    assert bool(found) == (kind not in WITHOUT_PRODUCT)
    assert not [name for name in found if "input" in name or name.startswith("into")]


def test_fresh_cells_stand_beside_one_of_a_users_own_and_draw_nothing_twice():
    before = torch.get_rng_state()
    first, second = (compare_cells(["elman", MinimalGatedUnit], length=10, hidden=8) for _ in range(2))
    assert first == second
    assert torch.equal(before, torch.get_rng_state()), "random numbers of the caller are untouched"
    assert [flow.name for flow in first] == ["elman", "MinimalGatedUnit"]
    view = gradients(["elman", MinimalGatedUnit], length=10, hidden=8)
    assert [line["name"] for line in view.to_dict()["lines"]] == ["elman", "MinimalGatedUnit"]
    assert len(view.lines(80)) >= 3
    with pytest.raises(ConfigError, match="too large"):
        flow_through("elman", length=10**9)


@pytest.mark.covers("I1")
def test_layer_norm_shrinks_gradients_by_root_d_over_the_norm():
    torch.manual_seed(0)
    for scale in (0.1, 1.0, 30.0):
        measured, expected = norm_shrinkage(scale * torch.randn(512))
        assert measured == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("kind", CELLS)
def test_norms_are_those_of_a_loop_over_the_steps(kind):
    torch.manual_seed(1)
    rnn, x = RNN(kind, 3, 5, layers=2), torch.randn(2, 6, 3)
    view = gradients(rnn, x)
    state, tops = rnn.initial_state(2, x), []
    for column in x.unbind(1):
        output, state = rnn.step(column, state)
        top = torch.utils._pytree.tree_leaves(state[-1])[0]
        top.retain_grad()
        tops.append(top)
    output.sum().backward()
    wanted = [float(top.grad.norm()) for top in tops]
    assert list(view.lines_[-1].norms) == pytest.approx(wanted, rel=1e-4)


def test_a_model_is_left_as_it_was():
    torch.manual_seed(0)
    rnn, x = RNN("lstm", 3, 4, bidirectional=True), torch.randn(1, 5, 3)
    rnn(x)[0].sum().backward()
    grads = {name: weight.grad.clone() for name, weight in rnn.named_parameters()}
    rnn.layers[0].cells[0].from_input.weight.requires_grad_(False)
    gradients(rnn, x)
    assert {name: torch.equal(weight.grad, grads[name]) for name, weight in rnn.named_parameters()}
    assert not rnn.layers[0].cells[0].from_input.weight.requires_grad
    assert all(layer.backend == "auto" for layer in rnn.modules() if isinstance(layer, Layer))
    assert all("step" not in vars(cell) for cell in rnn.layers[0].cells)
    assert not any(module._forward_hooks for module in rnn.modules())


PAIRS = [(f"the {a} {n}", f"le {n} {a}") for a in ("red", "big") for n in ("cat", "dog", "bird")] * 4
SMALL = {"train.steps": 2}


@pytest.mark.parametrize(
    ("encoder", "decoder"),
    [({"hidden": 6}, {"hidden": 6, "context": "attention"}), ({"kind": "transformer", "width": 8, "heads": 2}, {})],
)
def test_a_translator_has_lines_for_each_layer_of_both_sides(tmp_path, encoder, decoder):
    config = {"task": "translate", "data": {"train": PAIRS, "valid": PAIRS[:6]}}
    run = weft.train(config | {"model": {"encoder": encoder, "decoder": decoder}}, SMALL, out=tmp_path, quiet=True)
    view = gradients(run, "the red cat", target="le cat red")
    assert isinstance(view, GradientFlow)
    assert {line.part for line in view.lines_} == {"encoder", "decoder"}
    for line in view.lines_:
        assert len(line.norms) == len(line.positions) == 4
        assert all(math.isfinite(norm) for norm in line.norms)
        assert max(line.norms) > 0
    assert view.lines_[0].positions[:3] == ("the", "red", "cat")
    assert "x" in str(view.chart().to_dict())


def test_a_regressor_has_gradients_for_its_own_answer(tmp_path):
    data = [(text, float(len(text))) for text, _ in PAIRS]
    config = {"task": "regress", "data": {"train": data, "valid": data[:6]}, "model": {"kind": "rnn", "hidden": 4}}
    run = weft.train(config, SMALL, out=tmp_path, quiet=True)
    view = gradients(run, "the red cat")
    assert max(view.lines_[0].norms) > 0


def test_a_model_that_counts_has_nothing(tmp_path):
    config = {"task": "lm", "data": {"train": [text for text, _ in PAIRS]}, "model": {"kind": "ngram"}}
    run = weft.train(config, out=tmp_path, quiet=True)
    view = gradients(run, "the cat")
    assert isinstance(view, Nothing)
    assert 'of kind "ngram" has no layers' in view.summary
    page = view.save(tmp_path / "nothing.html").read_text(encoding="utf-8")
    assert "There is nothing to show" in page
    with pytest.raises(ConfigError, match="nothing to draw"):
        view.save(tmp_path / "nothing.png")


def test_a_long_text_has_a_scale_of_positions_and_the_peaks_of_its_norms():
    norms = [1.0] * 2000
    norms[1234] = 50.0
    line = FlowLine("layer 1", "encoder", tuple(norms), tuple(f"t{place}" for place in range(2000)))
    view = GradientFlow((line,))
    assert "largest norm of 4 neighbours" in view.summary
    (values,) = view.chart().to_dict()["datasets"].values()
    rows = json.loads(values) if isinstance(values, str) else values
    assert len(rows) == 500
    assert max(rows, key=lambda row: row["value"]) == {
        "x": 1233, "value": 50.0, "line": "layer 1", "kind": "norm", "token": "t1232"
    }  # fmt: skip
    assert len(view.to_dict()["lines"][0]["norms"]) == 2000


@pytest.mark.parametrize(
    ("norms", "powers"),
    [((0.5, 0.08), [0.1, 1.0]), ((0.5, 0.3), [0.1, 1.0]), ((1.0, 1e-40), [1e-40, 1e-35])],
)
def test_the_axis_of_norms_has_powers_of_ten(norms, powers):
    line = FlowLine("h", "", norms, ("1", "2"))
    layers = draw_panel([line], "cell").to_dict()["layer"]
    encoded = layers[0]["encoding"]["y"]
    values = encoded["axis"]["values"]
    assert values[: len(powers)] == pytest.approx(powers)
    assert 2 <= len(values) <= 9
    low, high = encoded["scale"]["domain"]
    assert low <= min(*norms, *values)
    assert high >= max(*norms, *values)
