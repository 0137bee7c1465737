"""Series that cannot be evaluated or forecast are one clear line each; short and constant ones are forecast."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

import numpy as np
import pytest
from tests.tasks.test_forecast import DAYS, numbers, write_table

import weft as package
from weft.run.prepare import prepare

HORIZON = 7
FEW = {"model.kind": "linear", "train.epochs": 1}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("refusals")
    price = [day % 5 for day in range(DAYS)]
    path = write_table(folder / "train.csv", numbers(), price=price)
    data = {"train": path, "horizon": HORIZON, "target": "value", "known": "price"}
    return package.train({"task": "forecast", "data": data}, FEW, out=folder / "run", quiet=True)


def table(values, known: int | None = None) -> str:
    """A file that has prices of the next steps, as many as are known."""
    ahead = HORIZON if known is None else known
    every = np.concatenate([values, np.full(ahead, np.nan)])
    return write_table(Path("new.csv"), every, first=DAYS, price=[3] * len(every))


NOTHING, ONE, CONSTANT = np.full(30, np.nan), np.array([5.0]), np.full(60, 8.0)


@pytest.mark.parametrize(
    ("values", "known", "message"),
    [
        (NOTHING, HORIZON, "new.csv:2: series value has no value (a forecast needs a past)"),
        (numbers(60), 3, "new.csv:2: price known for 3 of the 7 steps to forecast (give a row for each step"),
        (numbers(60), 0, "new.csv:2: price known for 0 of the 7 steps to forecast"),
        (numbers(60), 3, "whose own cell is empty; the first that lacks it is 2024-07-02)"),
    ],
)
def test_predict_names_what_is_missing_in_one_line(values, known, message, run, weft):
    outcome = weft("predict", str(run.folder), table(values, known))
    assert outcome.code == 2
    assert message in outcome.err
    assert outcome.err.strip().count("\n") == 0


@pytest.mark.parametrize("values", [ONE, CONSTANT, numbers(3)], ids=["one", "constant", "shorter than the horizon"])
def test_a_short_or_constant_series_is_forecast(values, run, weft):
    outcome = weft("predict", str(run.folder), table(values))
    rows = list(csv.DictReader(io.StringIO(outcome.out)))
    assert (outcome.code, len(rows)) == (0, HORIZON)
    for row in rows:
        low, middle, high = (float(row[column]) for column in ("q0.1", "q0.5", "q0.9"))
        assert math.isfinite(low)
        assert low <= middle <= high


def test_predict_notes_the_steps_that_a_file_leaves_out(run, weft):
    path = Path(table(numbers(60)))
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([*lines[:10], *lines[13:]]) + "\n", encoding="utf-8")
    with pytest.warns(
        UserWarning, match="3 steps of D are not in the file, the first before new.csv:11: read as missing"
    ):
        outcome = weft("predict", str(run.folder), str(path))
    assert (outcome.code, outcome.out.count("\n")) == (0, HORIZON + 1)


@pytest.mark.parametrize("backtest", [(), ("--backtest", "1")], ids=["all", "backtest"])
@pytest.mark.parametrize(
    "values", [NOTHING, ONE, numbers(HORIZON)], ids=["all missing", "one point", "as long as the horizon"]
)
def test_evaluate_names_what_is_too_short_in_one_line(values, backtest, run, weft):
    outcome = weft("evaluate", str(run.folder), table(values), *backtest)
    assert outcome.code == 2
    assert "new.csv:2: no series has a step before the last 7, which are to be forecast" in outcome.err
    assert outcome.err.strip().count("\n") == 0


def test_a_constant_series_is_evaluated(run, weft):
    outcome = weft("evaluate", str(run.folder), table(CONSTANT), "--json")
    assert outcome.code == 0
    assert '"mase"' in outcome.out


@pytest.mark.parametrize("part", ["valid", "test"])
def test_a_file_without_a_value_to_forecast_is_one_line(part, run, weft):
    later = write_table(Path("later.csv"), np.full(3, np.nan), first=DAYS, price=[1, 2, 3])
    words = [f"data.{part}={later}", "data.target=value", f"data.horizon={HORIZON}", "model.kind=linear"]
    outcome = weft("train", "forecast", run.config.data.train, *words, "--out", "other")
    assert outcome.code == 2
    message = "error later.csv:2: no series has a value to forecast (give the numbers that forecasts are compared with)"
    assert outcome.err.strip().splitlines()[-1] == message


def test_a_part_shorter_than_the_horizon_never_forecasts_what_is_before_it(run, tmp_path):
    later = write_table(tmp_path / "later.csv", numbers(DAYS + 3)[DAYS:], first=DAYS)
    data = {"train": run.config.data.train, "test": later, "target": "value", "horizon": HORIZON, "season": 7}
    found = prepare({"task": "forecast", "data": data}).test
    (window,) = found.records
    assert np.isfinite(window.target[-HORIZON:]).sum() == 3
    assert window.times(len(window.steps) - HORIZON, 1) == ["2024-04-30"]  # the first day after the training file


def test_the_frequency_stays_as_it_is_written(tmp_path):
    path = tmp_path / "quarters.csv"
    rows = [f"{1990 + quarter // 4}-Q{quarter % 4 + 1},{quarter % 7}" for quarter in range(0, 80, 2)]
    path.write_text("\n".join(["quarter,value", *rows]), encoding="utf-8")
    found = prepare({"task": "forecast", "data": {"train": str(path), "frequency": "2 quarters", "horizon": 2}})
    assert found.config.data.frequency == "2 quarters"
    first, second = found.valid.records[0].times(0, 2)
    assert np.datetime64(second) - np.datetime64(first) == np.timedelta64(6, "M")
    assert any(note.endswith("a step is 2 quarters of quarter") for note in found.notes)


def test_a_text_is_no_input_of_a_forecast(run, weft):
    outcome = weft("inspect", "gates", str(run.folder), "Hello. How are you")
    message = "error Hello. How are you: no such file (the input of a forecast is a CSV or TSV file with a header line)"
    assert (outcome.code, outcome.err.strip()) == (2, message)
    Path("sales.csv").touch()
    assert '(did you mean "sales.csv"?)' in weft("inspect", "gates", str(run.folder), "sale.csv").err
