"""weft bench forecast on a short series: who takes part, which windows, what is scored."""

from __future__ import annotations

import importlib.util
import json

import numpy as np
import pytest
from tests.tasks.test_forecast import numbers, write_table

from weft.bench.forecast import case as forecast_case
from weft.bench.forecast import measure_forecast, plan_forecast
from weft.bench.forecast.contenders import Forecasts, SeasonalNaive, Weft
from weft.bench.forecast.measure import ForecastFigures, score, tabulate_forecast

SETTINGS = {"horizon": 7, "season": 7}

needs_neuralforecast = pytest.mark.skipif(
    importlib.util.find_spec("neuralforecast") is None, reason="the package neuralforecast is not installed"
)


@pytest.fixture
def path(tmp_path):
    return write_table(tmp_path / "a.csv", numbers(100))


def test_windows_lie_in_the_test_part_and_training_before_it(path):
    case = plan_forecast(path, SETTINGS, windows=5)
    assert [window.origin for window in case.windows] == [81, 84, 87, 90, 93]  # equally spaced, the last at the end
    assert case.train()[0].end == 80
    assert case.windows[-1].truth.tolist() == case.series[0].target[93:].tolist()
    assert len(plan_forecast(path, SETTINGS | {"test": 30}, windows=1000).windows) == 24


def test_mase_and_coverage_are_those_of_the_formulas(path):
    case = plan_forecast(path, SETTINGS, windows=5)
    truth = np.stack([window.truth for window in case.windows])
    values = case.series[0].target[:80]
    unit = np.abs(values[7:] - values[:-7]).mean()
    assert score(case, Forecasts(truth + 2 * unit)) == (pytest.approx(2.0), None)
    inside = np.where(np.arange(7) < 5, 1.0, -1.0)
    assert score(case, Forecasts(truth, truth - inside, truth + inside)) == (0.0, pytest.approx(5 / 7))
    season = np.stack([case.series[0].target[window.origin - 7 : window.origin] for window in case.windows])
    assert SeasonalNaive(case).forecast().point.tolist() == season.tolist()


def test_weft_is_better_than_the_last_season_and_never_sees_the_test_part(path):
    case = plan_forecast(path, SETTINGS, repeats=1)
    contender = Weft(case)
    contender.fit()
    assert contender.run.task.scalings["value"].until < case.series[0].seconds(80, 1)[0]
    assert score(case, contender.forecast())[0] < score(case, SeasonalNaive(case).forecast())[0]


def test_what_is_not_installed_is_left_out_with_a_line(path, monkeypatch, weft):
    monkeypatch.setattr(forecast_case, "find_spec", lambda name: None)
    outcome = measure_forecast([plan_forecast(path, SETTINGS, repeats=1)], ("lstm", "deepar", "seasonal_naive"))
    assert [row.who for row in outcome.rows] == ["seasonal_naive"]
    assert outcome.remarks[0] == (
        "without lstm: the package neuralforecast is not installed (pip install neuralforecast)"
    )
    refused = weft("bench", "forecast", path, "--contender", "lstm")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "the package neuralforecast is not installed" in refused.err


def test_the_command_prints_the_figures_of_each_file(path, weft):
    words = ["data.horizon=7", "data.season=7", "--contender", "seasonal_naive", "--repeats", "1"]
    found = json.loads(weft("bench", "forecast", path, path, *words, "--json").out)
    assert [row["contender"] for row in found["rows"]] == ["seasonal_naive"] * 2
    assert found["rows"][0]["coverage"] is None
    assert "MASE" in weft("bench", "forecast", path, *words).out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--contender", "arima"], '--contender: "arima" is not a contender'),
        (["train.epochs=1"], "train: contenders have their defaults"),
        (["data.train=b.csv"], "data.train: the benchmark divides each file by itself"),
        (["data.test=b.csv"], "data.test: is no share or number of steps"),
    ],
)
def test_what_cannot_be_measured_is_one_line(words, message, path, weft):
    outcome = weft("bench", "forecast", path, *words)
    assert outcome.code == 2
    assert message in outcome.err


def test_the_table_has_a_dash_where_there_is_no_interval():
    rows = [ForecastFigures("a.csv", "lstm", 1.2345, None, 0, 2.0, 0.05)]
    assert tabulate_forecast(rows)[1] == [["a.csv", "lstm", "1.234", "-", "-", "2.0", "50.00"]]


@pytest.mark.slow
@needs_neuralforecast
def test_neuralforecast_forecasts_the_same_windows(path):
    case = plan_forecast(path, SETTINGS, windows=5, seconds=2.0, repeats=1)
    outcome = measure_forecast([case], ("lstm", "deepar"))
    assert [row.who for row in outcome.rows] == ["lstm", "deepar"]
    assert all(row.updates > 0 and row.mase > 0 for row in outcome.rows)
    assert [row.coverage is None for row in outcome.rows] == [True, False]
    assert all("was stopped after" in remark for remark in outcome.remarks)
