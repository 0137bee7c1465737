"""Forecasts from a file to the next steps: what is found, split in time, learned, evaluated, predicted and refused."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import weft as package
from weft.data import BadLines
from weft.errors import ConfigError, DataError
from weft.run.prepare import prepare
from weft.tasks.forecast_picture import draw_forecasts, full_date, points_of
from weft.tasks.forecast_scaling import NO_FLOOR, floor_of

DAYS = 120
QUICK = {"train.epochs": 6, "model.hidden": 8, "model.embedding": 8}


def numbers(days=DAYS, *, level=20.0, seed=0):
    draw, t = np.random.default_rng(seed), np.arange(days)
    return level + 0.1 * t + np.array([0, 1, 2, 4, 3, 9, 8])[t % 7] + draw.normal(0, 0.3, days)


def write_table(path: Path, values, *, first=0, **columns) -> str:
    """A table with a row per day; more columns are lists of as many cells."""
    dates = np.datetime64("2024-01-01") + np.arange(first, first + len(values))
    cells = ["" if np.isnan(value) else f"{value:.4f}" for value in values]
    rows = zip(dates.astype(str), cells, *columns.values(), strict=True)
    lines = [",".join(("date", "value", *columns)), *(",".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("forecast")
    train = write_table(folder / "train.csv", numbers())
    test = write_table(folder / "test.csv", numbers(DAYS + 28)[DAYS:], first=DAYS)
    tree = {"task": "forecast", "data": {"train": train, "test": test, "horizon": 7}}
    return package.train(tree, {"train.epochs": 60}, out=folder / "run", quiet=True)


@pytest.mark.covers("M6", "E4")
def test_it_learns_to_be_better_than_the_naive_forecasts(run):
    report = run.report
    for part in ("valid", "test"):
        simple = report["baselines"][part]
        assert list(simple) == ["naive", "seasonal_naive", "drift"]
        assert report[part]["mase"] < 0.8 * simple["seasonal_naive"]["mase"]
        assert report["details"][part]["baselines"] == simple
    assert 0.5 < report["test"]["coverage"] <= 1
    assert "split-conformal" in report["calibration"]["intervals"]


def test_season_lengths_and_columns_are_found_and_said_aloud(tmp_path):
    found = prepare({"task": "forecast", "data": {"train": write_table(tmp_path / "a.csv", numbers())}})
    data = found.config.data
    assert (data.target, data.time, data.frequency, data.season) == (["value"], "date", "D", 7)
    assert (data.horizon, data.history, data.calendar) == (14, 28, ["week"])
    assert "season 7: the series repeats every 7 steps" in found.notes
    assert any(note.startswith("forecasts 14 steps of value from the last 28") for note in found.notes)


def test_validation_and_test_are_the_last_parts_in_time(tmp_path):
    path = write_table(tmp_path / "a.csv", np.arange(100.0))
    later = write_table(tmp_path / "b.csv", np.arange(100.0, 112.0), first=100)
    data = {"train": path, "test": later, "horizon": 5, "history": 10, "season": 1}
    found = prepare({"task": "forecast", "data": data})
    scaling = found.task.scalings["value"]
    every = found.task.collate(found.train, range(len(found.train)))
    last = float(every.future.max()) * scaling.scale + scaling.mean
    assert last == pytest.approx(79)  # the last fifth is set aside, and no training window sees it
    futures = [np.array([record.target[10:] for record in part.records]) for part in (found.valid, found.test)]
    assert (futures[0].min(), futures[0].max()) == (80, 99)
    assert (futures[1].min(), futures[1].max()) == (100, 111)
    assert found.test.records[0].target[:10].tolist() == list(
        range(90, 100)
    )  # its past is the end of the training file


def test_a_later_file_must_not_begin_within_the_earlier_one(tmp_path):
    path, other = (write_table(tmp_path / name, numbers()) for name in ("a.csv", "b.csv"))
    with pytest.raises(DataError, match=r"b.csv:2: series \"value\" begins at 2024-01-01, within the data before it"):
        prepare({"task": "forecast", "data": {"train": path, "test": other}})


def test_predict_continues_time_and_numbers_in_their_own_unit(run, weft):
    outcome = weft("predict", str(run.folder))
    rows = list(csv.DictReader(io.StringIO(outcome.out)))
    assert list(rows[0]) == ["series", "time", "forecast", "q0.1", "q0.5", "q0.9"]
    assert [row["time"] for row in rows] == [str(np.datetime64("2024-01-01") + DAYS + 28 + day) for day in range(7)]
    truth = numbers(DAYS + 35)[-7:]
    assert np.abs([float(row["forecast"]) for row in rows] - truth).mean() < 1.5
    assert all(float(row["q0.1"]) <= float(row["q0.5"]) <= float(row["q0.9"]) for row in rows)
    found = json.loads(weft("predict", str(run.folder), "--json").out)
    assert (found["series"], len(found["forecast"]), list(found["quantiles"])) == ("value", 7, ["0.1", "0.5", "0.9"])


def test_python_and_the_command_line_give_the_same_forecast(run, tmp_path):
    path = write_table(tmp_path / "new.csv", numbers(60, level=50.0))
    (from_file,) = run.predict(path)
    rows = [{"date": str(np.datetime64("2024-01-01") + day), "value": float(f"{value:.4f}")}
            for day, value in enumerate(numbers(60, level=50.0))]  # fmt: skip
    (from_rows,) = run.predict(rows)
    assert from_rows.values == from_file.values
    with pytest.raises(DataError, match='no time stamps, and the run reads those of "date"'):
        run.predict(numbers(60).tolist())


def test_evaluation_rolls_the_origin(run, weft, tmp_path):
    path = write_table(tmp_path / "a.csv", numbers(DAYS + 28))
    found = run.evaluate(path, backtest=3)
    assert (found.details["windows"], found.details["count"]) == (3, 21)
    outcome = weft("evaluate", str(run.folder), path, "--backtest", "3", "--json")
    assert json.loads(outcome.out)["mase"] == pytest.approx(found.metrics["mase"])
    shown = weft("evaluate", str(run.folder), path, "--backtest", "3").out
    assert "the last season repeated" in shown
    outcome = weft("evaluate", str(run.folder), path, "--backtest", "99")
    assert outcome.code == 2
    assert "99 horizons of 7 steps do not fit" in outcome.err


def test_the_numbers_to_forecast_never_scale_a_new_series(run, tmp_path):
    task = run.task
    values = numbers(task.history + task.horizon, level=500.0)
    later = np.concatenate([values[: task.history], values[task.history :] + 1000])
    scalings = []
    for name, column in (("one", values), ("two", later)):
        path = write_table(tmp_path / f"{name}.csv", column)
        [record] = task.read(path, run.config.data, BadLines())
        scalings.append(task.scaling(replace(record, name="new")))
    assert scalings[0] == scalings[1]
    assert 450 < scalings[0].mean < 550


def test_windows_that_were_trained_on_are_counted(run, weft, tmp_path):
    path = write_table(tmp_path / "a.csv", numbers(DAYS + 28))
    found = run.evaluate(path, backtest=10).details["warning"]  # 10 weeks: 4 after training, 3 in its validation part
    assert found == "3 of the 10 forecast windows lie in the training data: these scores flatter the model"
    assert "in the training data" in weft("evaluate", str(run.folder), path).out
    assert "warning" not in run.evaluate(path, backtest=4).details
    assert "warning" not in run.report["details"]["valid"]


def test_the_point_forecast_is_the_median_whatever_the_offsets_are(run):
    (answer,) = run.predict(run.config.data.train)
    assert answer.values == answer.quantiles[0.5]
    offsets = run.model.offsets.clone()
    try:
        run.model.offsets += torch.tensor([9.0, 0.0, -9.0])
        (crossed,) = run.predict(run.config.data.train)
    finally:
        run.model.offsets.copy_(offsets)
    assert crossed.values == crossed.quantiles[0.5] == crossed.quantiles[0.1] == crossed.quantiles[0.9] == answer.values


def test_counts_are_never_negative(tmp_path):
    draw = np.random.default_rng(0)
    counts = draw.poisson(0.3, DAYS).astype(float)
    data = {"train": write_table(tmp_path / "a.csv", counts), "horizon": 7, "season": 1}
    made = package.train({"task": "forecast", "data": data}, QUICK, out=tmp_path / "run", quiet=True)
    (answer,) = made.predict(data["train"])
    assert min(min(values) for values in answer.quantiles.values()) >= 0
    assert floor_of(counts - 1) == floor_of(counts + 1) == NO_FLOOR


def test_only_forecasts_have_a_backtest(labelled, weft):
    weft("train", "classify", labelled, "--out", "run", "train.epochs=1")
    outcome = weft("evaluate", "run", labelled, "--backtest", "3")
    assert outcome.code == 2
    assert "backtest: classify forecasts no series" in outcome.err


def test_missing_values_are_an_input_and_never_count_as_right_or_wrong(tmp_path):
    values = numbers()
    values[[30, 31, 80, 110]] = np.nan
    path = write_table(tmp_path / "a.csv", values)
    made = package.train(
        {"task": "forecast", "data": {"train": path, "horizon": 7}}, QUICK, out=tmp_path / "run", quiet=True
    )
    windows = DAYS - 96 - 7 + 1
    seen = sum(int((~np.isnan(values[96 + k : 103 + k])).sum()) for k in range(windows))
    assert made.report["details"]["valid"]["count"] == seen < windows * 7


def test_many_series_with_covariates_share_one_model(tmp_path):
    draw = np.random.default_rng(0)
    lines = ["shop,date,sales,promo,rain,size"]
    for shop, level in (("a", 10.0), ("b", 200.0), ("c", 50.0)):
        promo = draw.random(DAYS + 7) < 0.2
        for day in range(DAYS + 7):
            sales = level * (1 + 0.5 * promo[day] + 0.01 * draw.normal()) if day < DAYS else ""
            lines.append(
                f"{shop},{np.datetime64('2024-01-01') + day},{sales},{int(promo[day])},{draw.random():.2f},{level}"
            )
    path = tmp_path / "shops.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    data = {"train": str(path), "target": "sales", "known": "promo", "past": ["rain"], "static": "size", "horizon": 7}
    made = package.train(
        {"task": "forecast", "data": data}, {"train.epochs": 20, "model.hidden": 16}, out=tmp_path / "run", quiet=True
    )
    assert made.config.data.series == "shop"
    assert made.report["valid"]["mase"] < 0.8 * min(one["mase"] for one in made.report["baselines"]["valid"].values())
    answers = made.predict(str(path))
    assert [answer.series for answer in answers] == ["a", "b", "c"]
    assert [round(float(np.mean(answer.values)), -1) // 10 > 10 for answer in answers] == [False, True, False]
    short = "\n".join(line for line in lines if not line.startswith("b") or "2024-05-06" not in line)
    path.write_text(short, encoding="utf-8")
    with pytest.raises(DataError, match="promo known for 6 of the 7 steps to forecast"):
        made.predict(str(path))


@pytest.mark.parametrize("settings", [{"output": "point"}, {"output": "student_t"}, {"multistep": "recursive"},
                                      {"kind": "transformer", "width": 16, "heads": 2, "layers": 1},
                                      {"kind": "conv", "width": 16, "kernel": 3, "layers": 2}])  # fmt: skip
def test_every_output_and_network_trains_loads_and_predicts(settings, tmp_path):
    path = write_table(tmp_path / "a.csv", numbers())
    tree = {"task": "forecast", "data": {"train": path, "horizon": 7}, "model": settings, "train": {"epochs": 3}}
    made = package.train(tree, out=tmp_path / "run", quiet=True)
    (answer,), (again,) = (one.predict(path) for one in (made, package.load(tmp_path / "run")))
    assert answer == again
    assert len(answer.values) == 7
    assert answer.quantiles[0.1][0] < answer.quantiles[0.9][0]


def test_scheduled_sampling_is_for_networks_that_read_their_own_forecasts(tmp_path):
    data = {"train": write_table(tmp_path / "a.csv", numbers()), "horizon": 7}
    tree = {"task": "forecast", "data": data, "train": {"epochs": 2, "teacher_forcing": 0.5}}
    with pytest.raises(ConfigError, match=r"train.teacher_forcing = 0.5: .* reads no forecast"):
        package.train(tree, out=tmp_path / "run", quiet=True)
    model = {"multistep": "recursive", "hidden": 8, "embedding": 8}
    made = package.train({**tree, "model": model}, out=tmp_path / "other", quiet=True)
    assert made.report["valid"]["mase"] > 0


@pytest.mark.parametrize(
    ("values", "settings", "message"),
    [
        (np.full(50, 3.0), {}, 'series "value": is constant: every value is 3'),
        (np.array([1.0]), {}, 'series "value": has a single value'),
        (np.full(50, np.nan), {"data.target": "value"}, 'series "value": all values are missing'),
        (numbers(20), {"data.horizon": 30}, "horizon = 30, and the longest series has 20 steps"),
        (
            numbers(),
            {"data.history": 1000},
            f"data.history = 1000: is more than the {DAYS} steps of the longest series",
        ),
        (numbers(), {"data.season": 1000}, f"data.season = 1000: is more than the {DAYS} steps of the longest series"),
        (numbers(), {"data.frequency": "-D"}, 'error data.frequency = "-D": is no frequency'),
        (numbers(), {"data.frequency": "min"}, 'as in data.frequency="D"'),
        (
            np.concatenate([np.full(50, np.nan), numbers(10)]),
            {"data.horizon": 3},
            'series "value": all values are missing in the training part',
        ),
        (numbers(), {"data.target": "price"}, 'no column "price" for data.target'),
        (numbers(), {"text.kind": "word"}, "no such setting: forecast reads no text"),
    ],
)
def test_what_cannot_be_forecast_is_one_clear_line(values, settings, message, weft):
    path = write_table(Path("a.csv"), values)
    outcome = weft("train", "forecast", path, *(f"{name}={value}" for name, value in settings.items()))
    assert outcome.code == 2
    assert message in outcome.err
    assert outcome.err.count("\n") <= 3


@pytest.mark.parametrize("output", ["quantile", "student_t", "point"])
def test_a_constant_series_among_others_is_learned_and_left_out_of_mase(output, weft, tmp_path):
    table = {"step": np.arange(DAYS), "sales": numbers(), "closed": np.full(DAYS, 0.1), "rent": np.full(DAYS, 7e6)}
    path = tmp_path / "shop.csv"
    rows = zip(*table.values(), strict=True)
    path.write_text("\n".join([",".join(table), *(",".join(map(str, row)) for row in rows)]) + "\n", encoding="utf-8")
    names = 'data.target=["sales","closed","rent"]'
    small = ["model.kind=linear", f"model.output={output}", "train.epochs=3", "data.horizon=7"]
    outcome = weft("train", "forecast", str(path), names, *small, "--out", str(tmp_path / "run"))
    assert outcome.code == 0, outcome.err
    assert "note constant in the training part: closed, rent; learned, but left out of MASE" in outcome.err
    run = package.load(tmp_path / "run")
    valid = run.report["valid"]
    assert 0 < valid["mase"] < 10
    assert run.report["details"]["valid"]["left_out"].endswith(" from MASE: their series are constant in training")
    for answer in run.predict(str(path)):
        if answer.series != "sales":
            expected = table[answer.series][0]
            np.testing.assert_allclose(answer.values, expected, atol=0.05 * max(1.0, expected))
    printed = weft("evaluate", str(tmp_path / "run"), str(path), "--backtest", "2")
    assert "left out: 28 of 42 values from MASE: their series are constant in training" in printed.out
    alone = run.evaluate({"step": table["step"], "closed": table["closed"]}, columns={"target": "closed"}, backtest=2)
    assert "mase" not in alone.metrics
    assert alone.metrics["mae"] < 0.05


def test_a_series_without_two_values_is_left_out_of_training_alone(weft, tmp_path):
    sales, late, once = numbers(), np.full(DAYS, np.nan), np.full(DAYS, np.nan)
    late[-9:], once[5] = np.arange(9.0), 1.0
    shops = {"a": sales, "late": late, "once": once, "none": np.full(DAYS, np.nan)}
    rows = [(name, day, value) for name, values in shops.items() for day, value in enumerate(values)]
    path = tmp_path / "long.csv"
    lines = (f"{name},{day},{'' if np.isnan(value) else value}" for name, day, value in rows)
    path.write_text("\n".join(["shop,day,sales", *lines]) + "\n", encoding="utf-8")
    data = ["data.series=shop", "data.time=day", "data.target=sales", "data.horizon=7"]
    small = ["model.kind=linear", "train.epochs=2"]
    outcome = weft("train", "forecast", str(path), *data, *small, "--out", str(tmp_path / "run"))
    assert outcome.code == 0, outcome.err
    assert "note not trained on late, once, none: fewer than two values in the training part" in outcome.err
    with pytest.warns(UserWarning, match="^no forecast of none: all values are missing$"):
        outcome = weft("predict", str(tmp_path / "run"), str(path), "--json")
    assert {json.loads(line)["series"] for line in outcome.out.splitlines()} == {"a", "late", "once"}


@pytest.mark.parametrize("size", [1e-12, 1e-200])
def test_forecasts_do_not_depend_on_the_unit(size, tmp_path):
    found = []
    for unit in (1.0, size):
        table = {"value": numbers() * unit}
        data = {"train": table, "target": "value", "horizon": 7, "season": 7}
        config = {"task": "forecast", "data": data, "model": {"kind": "linear"}}
        run = package.train(config, {"train.steps": 5}, out=tmp_path / f"run{unit}", quiet=True)
        (answer,) = run.predict(table)
        found.append(np.array(answer.values) / unit)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-4)


def test_the_picture_has_history_forecast_and_interval(run):
    (answer,) = run.predict(run.config.data.train)
    points = list(points_of(answer))
    assert sum("value" in point for point in points) == min(len(answer.history.steps), 6 * 7)
    joint, *ahead = points[-8:]
    assert joint["value"] == joint["forecast"] == joint["low"] == joint["high"]
    assert all(point["low"] <= point["forecast"] <= point["high"] for point in ahead)
    assert ahead[0]["time"] == answer.times[0]


@pytest.mark.usefixtures("extras")
def test_the_picture_says_when_the_forecast_begins_and_how_many_series_are_left_out(run):
    (answer,) = run.predict(run.config.data.train)
    one, many = draw_forecasts([answer]).to_dict(), draw_forecasts([answer] * 30).to_dict()
    assert one["vconcat"][0]["title"] == f"value: 7 steps from {answer.times[0]} on, 80% interval"
    assert "title" not in one
    assert (many["title"], len(many["vconcat"])) == ("The first 12 of 30 series", 12)


def test_times_of_the_picture_are_those_of_the_table():
    assert [full_date(time) for time in ("2024-03", "2024-03-31 02:00:00Z")] == ["2024-03-01", "2024-03-31 02:00:00"]


@pytest.mark.slow
@pytest.mark.usefixtures("extras")
def test_the_picture_is_drawn(run, weft):
    outcome = weft("predict", str(run.folder), "--plot", "next.svg")
    assert (outcome.code, Path("next.svg").read_text(encoding="utf-8")[:4]) == (0, "<svg")


def test_only_forecasts_have_a_picture(labelled, weft, monkeypatch):
    monkeypatch.setattr("weft.charts.rendering.can_draw", lambda: True)
    weft("train", "classify", labelled, "--out", "run", "train.epochs=1")
    outcome = weft("predict", "run", labelled, "--plot", "a.svg")
    assert (outcome.code, "has no picture of its answers" in outcome.err) == (2, True)


def test_the_card_and_the_summary_say_how_good_it_is(run):
    card = (run.folder / "README.md").read_text(encoding="utf-8")
    assert "the last season repeated: mase" in card
    assert "intervals are split-conformal" in card
