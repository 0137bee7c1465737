"""Metrics of forecasts: values worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from weft.metrics.conformal import conformal_offsets, cross_coverage
from weft.metrics.forecast import forecast_metrics, point_sums, quantile_sums, seasonal_error, simple_baselines

NAN = math.nan


@pytest.mark.covers("E4")
def test_errors_of_a_forecast_by_hand():
    gold, point = np.array([[10.0, 20.0, NAN, 0.0]]), np.array([[12.0, 17.0, 99.0, 0.0]])
    found = forecast_metrics(point_sums(gold, point, np.array([4.0])))
    assert found["mae"] == pytest.approx(5 / 3)  # distances 2, 3, 0; the missing value does not count
    assert found["rmse"] == pytest.approx(math.sqrt(13 / 3))
    assert found["mase"] == pytest.approx(5 / 3 / 4)
    assert found["smape"] == pytest.approx((4 / 22 + 6 / 37 + 0) / 3)


def test_each_series_has_its_own_unit_of_mase():
    gold, point = np.zeros((2, 1)), np.array([[2.0], [2.0]])
    assert forecast_metrics(point_sums(gold, point, np.array([1.0, 4.0])))["mase"] == pytest.approx((2 + 0.5) / 2)


def test_a_series_without_an_error_does_not_count_in_mase():
    gold, point = np.zeros((2, 2)), np.array([[2.0, 2.0], [6.0, 6.0]])
    found = forecast_metrics(point_sums(gold, point, np.array([4.0, NAN])))
    assert (found["mase"], found["mae"]) == (0.5, 4.0)
    assert "mase" not in forecast_metrics(point_sums(gold, point, np.array([NAN, NAN])))


def test_quantile_loss_and_coverage_by_hand():
    gold = np.array([[10.0, 20.0]])
    quantiles = np.array([[[8.0, 11.0], [21.0, 25.0]]])
    sums = [*point_sums(gold, gold, np.ones(1)), *quantile_sums(gold, quantiles, [0.1, 0.9])]
    # 10: 0.1 · 2 and 0.1 · 1; 20: 0.9 · 1 and 0.1 · 5; each twice, the mean of two levels, over a sum of 30
    assert forecast_metrics(sums)["quantile_loss"] == pytest.approx((0.2 + 0.1 + 0.9 + 0.5) / 30)
    assert forecast_metrics(sums)["coverage"] == 0.5


@pytest.mark.parametrize(
    ("numbers", "season", "error"),
    [
        ([1.0, 2.0, 4.0, 4.0], 2, 2.5),
        ([1.0, 2.0, 4.0, 4.0], 1, 1.0),
        ([1.0, NAN, 4.0, 4.0], 2, 3.0),
        ([1.0, 2.0, 1.0, 2.0], 2, 1.0),  # no error of a season: that of the last value
        ([1.0, 2.0], 5, 1.0),
        ([3.0, 3.0], 1, 1.0),
    ],
)
def test_the_unit_of_mase_is_the_seasonal_naive_error_in_the_training_part(numbers, season, error):
    assert seasonal_error(np.array(numbers), season) == pytest.approx(error)


def test_naive_forecasts_by_hand():
    found = simple_baselines(np.array([[NAN, 2.0, 4.0, 6.0, NAN]]), season=2, horizon=3)
    assert found["naive"].tolist() == [[6.0, 6.0, 6.0]]
    assert found["seasonal_naive"].tolist() == [[6.0, 6.0, 6.0]]  # the missing last value is replaced by 6
    assert found["drift"].tolist() == [[10.0, 12.0, 14.0]]  # 2 a step from the last observed value on
    assert simple_baselines(np.array([[1.0, 2.0, 3.0]]), season=3, horizon=4)["seasonal_naive"].tolist() == [
        [1, 2, 3, 1]
    ]


def test_conformal_offsets_are_the_residuals_of_their_rank():
    residuals = np.repeat(np.arange(1.0, 10.0)[:, None, None], 3, axis=2)  # 1 … 9 in nine windows of one step
    offsets = conformal_offsets(residuals, [0.1, 0.5, 0.9])
    assert offsets.tolist() == [[1.0, 0.0, 9.0]]  # ⌊10 · 0.1⌋ = 1 and ⌈10 · 0.9⌉ = 9


def test_conformal_quantiles_cover_their_share_of_new_data():
    draw = np.random.default_rng(0)
    noise = draw.normal(size=(4000, 1))
    offsets = conformal_offsets(np.repeat(noise[:2000, :, None], 3, axis=2), [0.1, 0.5, 0.9])
    inside = (offsets[:, 0] <= noise[2000:]) & (noise[2000:] <= offsets[:, 2])
    assert inside.mean() == pytest.approx(0.8, abs=0.03)


def test_coverage_is_measured_on_the_half_that_set_no_offset():
    residuals = np.repeat(np.array([-1.0, 1.0, -3.0, 3.0])[:, None, None], 3, axis=2)
    # The offsets ±3 of the second half cover the first; ±1 of the first half cover nothing of the second.
    assert cross_coverage(residuals, [0.1, 0.5, 0.9]) == 0.5
    assert cross_coverage(residuals[:1], [0.1, 0.5, 0.9]) is None
