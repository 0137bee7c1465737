"""A ladder of forecasts: simple rules first, all on the same windows, and stretches of windows drawn together."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.tasks.test_forecast import numbers, write_table

from weft.compare import Tally
from weft.compare.bootstrap import drawn_units
from weft.errors import ConfigError
from weft.ladder import build_rungs
from weft.run import load

HORIZON = 7


def test_simple_forecasts_and_models_stand_in_one_table_of_the_test_part(weft, tmp_path):
    path = write_table(tmp_path / "a.csv", numbers(200))
    words = ["data.test=0.3", f"data.horizon={HORIZON}"]
    only = "naive,seasonal_naive,drift,linear"
    outcome = weft("ladder", "forecast", path, *words, "--updates", "30", "--only", only, "--out", "lad", "--json")
    assert outcome.code == 0
    found = json.loads(outcome.out)
    scores = {rung["name"]: rung["score"] for rung in found["rungs"]}
    assert list(scores) == only.split(",")
    assert (found["metric"], found["measured_on"], found["speed_unit"]) == ("mase", "test", "forecasts/s")
    report = load("lad/rungs/linear").report
    assert {name: scores[name] for name in report["baselines"]["test"]} == pytest.approx(
        {name: one["mase"] for name, one in report["baselines"]["test"].items()}
    )
    assert scores["linear"] == pytest.approx(report["test"]["mase"])
    assert scores["linear"] < scores["seasonal_naive"] < scores["naive"]
    assert found["examples"] == -(-(60 - HORIZON + 1) // HORIZON)  # stretches of one horizon, not windows


def test_a_file_for_the_test_continues_the_training_file(weft, tmp_path):
    every = numbers(160)
    one, two = (
        write_table(tmp_path / f"{first}.csv", every[first:last], first=first) for first, last in ((0, 120), (120, 160))
    )
    data = [one, f"data.test={two}", f"data.horizon={HORIZON}", "data.history=14"]
    outcome = weft("ladder", "forecast", *data, "--only", "naive,linear", "--updates", "2", "--out", "lad", "--json")
    assert outcome.code == 0
    naive = json.loads(outcome.out)["rungs"][0]
    assert naive["score"] == pytest.approx(load("lad/rungs/linear").report["baselines"]["test"]["naive"]["mase"])


def test_rows_that_overlap_are_never_drawn_alone():
    tally = Tally(np.ones((20, 2)), np.repeat([0, 1], 10), lambda sums: {"x": float(sums[0])})
    assert len(drawn_units([tally])[0].numbers) == 20  # few records: rows are drawn
    together = Tally(tally.numbers, tally.records, tally.score, rows_overlap=True)
    assert len(drawn_units([together])[0].numbers) == 2


def test_an_unknown_rung_is_named():
    base = {"task": "forecast", "data": {"train": "a.csv"}}
    assert [rung.name for rung in build_rungs(base)][:4] == ["naive", "seasonal_naive", "drift", "linear"]
    with pytest.raises(ConfigError, match=r'"arima": is no rung of forecast'):
        build_rungs(base, only=["arima"])
