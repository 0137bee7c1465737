"""The forecaster: it starts at the seasonal naive forecast, steps equal the pass over all, quantiles never cross."""

from __future__ import annotations

import math

import pytest
import torch
from torch.testing import assert_close

from weft.models.forecast_output import OUTPUTS, QuantileOutput, StudentOutput
from weft.models.forecast_skip import SIMPLE, fill_missing, simple_forecasts
from weft.models.forecaster import Forecaster, ForecastSizes, SeriesWindow
from weft.models.forecaster_settings import FORECASTERS

SIZES = ForecastSizes(history=12, horizon=5, season=4, past=2, known=3, static=1, series=3, categories=(2, 4))
SMALL = {
    "rnn": {"hidden": 8, "embedding": 4},
    "transformer": {"width": 8, "heads": 2, "layers": 1},
    "conv": {"width": 8},
    "linear": {},
}


def build(kind="rnn", sizes=SIZES, **settings):
    torch.manual_seed(0)
    return Forecaster(FORECASTERS[kind](**SMALL[kind], **settings), sizes).eval()


def a_window(rows=3, sizes=SIZES):
    torch.manual_seed(1)
    observed = torch.rand(rows, sizes.history) < 0.8
    observed[:, -1] = True
    return SeriesWindow(
        torch.randn(rows, sizes.history) * observed,
        observed,
        torch.randn(rows, sizes.history, sizes.past),
        torch.randn(rows, sizes.history + sizes.horizon, sizes.known),
        torch.arange(rows) % (sizes.series + 1),
        torch.randn(rows, sizes.static),
        torch.stack([(torch.arange(rows) + 1) % (count + 1) for count in sizes.categories], dim=1),
    )


def awake(model):
    """Weights as after some training: none is zero any more."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


@pytest.mark.covers("M6")
@pytest.mark.parametrize("multistep", ["direct", "recursive"])
@pytest.mark.parametrize("kind", FORECASTERS)
def test_it_starts_near_the_seasonal_naive_forecast(kind, multistep):
    model, window = build(kind, multistep=multistep, output="point"), a_window()
    with torch.no_grad():
        model.mixture.weights[:, SIMPLE.index("seasonal")] = 20.0
        found = model.output.point(model(window).parameters)
    naive = fill_missing(window.target, window.observed)[:, [8, 9, 10, 11, 8]]
    assert_close(found, naive, atol=0.02, rtol=0.0)


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("kind", FORECASTERS)
def test_reading_its_own_forecasts_as_the_future_gives_them_again(kind, output):
    """A recursive network step by step computes what it computes in one pass over its own forecasts."""
    model, window = awake(build(kind, multistep="recursive", output=output)), a_window()
    with torch.no_grad():
        own = model(window)
        again = model(window, model.output.point(own.parameters))
    assert_close(again.parameters, own.parameters, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("multistep", ["direct", "recursive"])
@pytest.mark.parametrize("kind", FORECASTERS)
def test_each_row_is_forecast_by_itself_and_each_weight_learns(kind, multistep):
    model, window = awake(build(kind, multistep=multistep)), a_window()
    future = torch.randn(3, SIZES.horizon)
    alone = SeriesWindow(*(part[1:2] for part in window))
    assert_close(model(window, future).parameters[1:2], model(alone, future[1:2]).parameters, atol=1e-5, rtol=1e-5)
    model.output.loss(model(window, future).parameters, future).sum().backward()
    assert [name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()] == []


@pytest.mark.parametrize("output", OUTPUTS)
def test_a_forecast_moves_and_stretches_with_its_series(output):
    model, window = awake(build(output=output)), a_window()
    moved = window._replace(target=torch.where(window.observed, 10 + 3 * window.target, 0.0))
    with torch.no_grad():
        one, other = (model.quantiles(model(each)) for each in (window, moved))
    assert_close(other, 10 + 3 * one, atol=1e-3, rtol=1e-3)


def test_a_category_has_a_vector_and_an_unknown_one_has_none():
    model, window = awake(build()), a_window()
    with torch.no_grad():
        for vectors in model.categories:
            vectors.weight[0] = 0.0  # as training leaves it: no gradient reaches the vector of unknown categories
        found = [model(window._replace(categories=torch.full_like(window.categories, one))) for one in (0, 1, 2)]
        for vectors in model.categories:
            vectors.weight[1:] = 0.0
        without = model(window)
    assert not torch.allclose(found[1].parameters, found[2].parameters)
    assert_close(found[0].parameters, without.parameters)


def test_a_missing_value_is_seen_as_missing_and_not_as_zero():
    model, window = awake(build()), a_window()
    hidden = window.observed.clone()
    hidden[:, 5] = False
    one, other = (model(window._replace(observed=hidden, target=window.target.index_fill(1, torch.tensor([5]), value)))
                  for value in (0.0, 50.0))  # fmt: skip
    assert_close(one.parameters, other.parameters)


def test_quantiles_rise_and_their_loss_is_the_pinball_loss_by_hand():
    output = QuantileOutput([0.1, 0.5, 0.9])
    found = output.parameters(torch.randn(4, 5, 3), torch.randn(4, 5), torch.rand(4, 1) + 0.1)
    assert (found.diff(dim=-1) > 0).all()
    loss = output.loss(torch.tensor([[[8.0, 10.0, 11.0]]]), torch.tensor([[12.0]]))
    assert loss.item() == pytest.approx(2 * (0.1 * 4 + 0.5 * 2 + 0.9 * 1) / 3)


def test_student_quantiles_and_density_are_those_of_tables():
    levels = [0.1, 0.5, 0.9, 0.975]
    output = StudentOutput(levels)
    for freedom, expected in (
        (4.0, [-1.533206, 0.0, 1.533206, 2.776445]),
        (30.0, [-1.310415, 0.0, 1.310415, 2.042272]),
    ):
        found = output.quantiles(torch.tensor([[[0.0, 1.0, freedom]]]))[0, 0]
        assert found.tolist() == pytest.approx(expected, abs=2e-3)
    parameters = torch.tensor([[[1.0, 2.0, 5.0]]])
    expected = -torch.distributions.StudentT(5.0, 1.0, 2.0).log_prob(torch.tensor(4.0))
    assert output.loss(parameters, torch.tensor([[4.0]])).item() == pytest.approx(expected.item(), abs=1e-5)


def test_simple_forecasts_by_hand():
    history = torch.tensor([[1.0, 2.0, 3.0, 6.0]])
    found = dict(
        zip(
            SIMPLE, simple_forecasts(history, torch.ones(1, 4, dtype=torch.bool), season=2, horizon=3)[0].T, strict=True
        )
    )
    expected = {
        "last": [6, 6, 6], "seasonal": [3, 6, 3], "profile": [2, 4, 2], "mean": [4.5] * 3, "shifted": [6, 9, 9],
        "level": [3.5, 5.5, 3.5],
    }  # fmt: skip
    assert {name: values.tolist() for name, values in found.items()} == expected
    drift = simple_forecasts(history, torch.ones(1, 4, dtype=torch.bool), season=1, horizon=2)[
        0, :, SIMPLE.index("shifted")
    ]
    assert drift.tolist() == pytest.approx([6 + 5 / 3, 6 + 10 / 3])


def test_quantiles_of_the_settings_must_rise_and_contain_the_median():
    for levels in ([0.9, 0.5], [0.1, 0.9], [0.5, 0.5]):
        with pytest.raises(ValueError, match=r"must rise and contain 0.5"):
            FORECASTERS["rnn"](quantiles=levels)
    assert math.isclose(FORECASTERS["rnn"]().quantiles[-1], 0.9)
