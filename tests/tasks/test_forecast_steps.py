"""Tables without time stamps: their rows are numbered, in the answer as in its picture."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

import weft as package
from weft.errors import DataError
from weft.run.prepare import prepare
from weft.tasks.forecast_picture import draw_forecasts, points_of

QUICK = {"model.kind": "linear", "train.epochs": 1}
VALUES = [float(step % 7) for step in range(40)]


def write_months(path: Path, first: int = 0, count: int = len(VALUES)) -> str:
    """A table whose time stamps are no dates: "2-07" is the seventh month of the second year."""
    lines = [f"{month // 12 + 1}-{month % 12 + 1:02},{month % 7}" for month in range(first, first + count)]
    path.write_text("\n".join(["Month,Sales", *lines]) + "\n", encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def answer(tmp_path_factory):
    data = {"train": {"value": VALUES}, "horizon": 3, "history": 6}
    run = package.train({"task": "forecast", "data": data}, QUICK, out=tmp_path_factory.mktemp("steps"), quiet=True)
    return run.predict(VALUES)


def test_the_picture_has_the_steps_of_the_table(answer):
    points = list(points_of(answer))
    assert answer.times == ("40", "41", "42")
    assert [point["step"] for point in points] == list(range(34, 43))
    assert [point["value"] for point in points if "value" in point] == VALUES[-6:]


@pytest.mark.usefixtures("extras")
def test_the_axis_of_the_picture_has_whole_steps(answer):
    (panel,) = draw_forecasts([answer]).to_dict()["vconcat"]
    x = panel["layer"][0]["encoding"]["x"]
    assert (x["field"], x["type"], x["axis"]) == ("step", "quantitative", {"format": "d", "tickMinStep": 1})


def test_a_column_that_is_no_time_stamp_is_ignored(weft):
    path = write_months(Path("sales.csv"))
    words = ("data.horizon=3", "data.test=0.2", "model.kind=linear", "train.epochs=1", "--out", "run")
    refused = weft("train", "forecast", path, *words)
    assert refused.code == 2
    assert "sales.csv:2: \"Month\" is '1-01', no time stamp" in refused.err
    assert "data.time=false" in refused.err
    trained = weft("train", "forecast", path, "data.time=false", *words)
    assert (trained.code, package.load("run").config.data.time) == (0, False)
    answered = weft("predict", "run", write_months(Path("later.csv"), count=50))
    rows = list(csv.DictReader(io.StringIO(answered.out)))
    assert [(row["series"], row["time"]) for row in rows] == [("Sales", "50"), ("Sales", "51"), ("Sales", "52")]
    assert weft("evaluate", "run", "later.csv").code == 0


@pytest.mark.parametrize("part", ["valid", "test"])
def test_a_later_file_without_time_stamps_follows_the_earlier_one(part, tmp_path):
    later = write_months(tmp_path / "later.csv", first=40, count=9)
    data = {"train": write_months(tmp_path / "a.csv"), part: later, "time": False, "horizon": 3, "history": 4}
    window = getattr(prepare({"task": "forecast", "data": data}), part).records[0]
    assert window.target.tolist() == [month % 7 for month in range(36, 43)]


def test_names_of_series_are_found_without_time_stamps(tmp_path):
    path = tmp_path / "shops.csv"
    rows = [f"{name},{day},{day % 5 + more}" for name, more in (("a", 0), ("b", 3)) for day in range(1, 31)]
    path.write_text("\n".join(["id,Day,Sales", *rows]), encoding="utf-8")
    found = prepare({"task": "forecast", "data": {"train": str(path), "time": False, "horizon": 2}}).config.data
    assert (found.series, found.target, found.time, found.frequency) == ("id", ["Sales"], False, None)


def test_a_table_of_time_stamps_alone_has_nothing_to_forecast(tmp_path):
    path = tmp_path / "days.csv"
    path.write_text("day\n" + "\n".join(map(str, range(40))), encoding="utf-8")
    with pytest.raises(DataError, match="no column of numbers that could be the target"):
        prepare({"task": "forecast", "data": {"train": str(path), "time": False}})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"time": True}, "data.time: true is neither the name of a column, nor false for none"),
        ({"time": False, "frequency": "M"}, 'data.frequency = "M": needs time stamps, but data.time = false'),
        (
            {"time": False, "calendar": ["year"]},
            'data.calendar = ["year"]: needs time stamps, but data.time = false',
        ),
    ],
)
def test_what_needs_time_stamps_is_refused_without_them(settings, message, tmp_path, weft):
    words = [f"data.{name}={json.dumps(value)}" for name, value in settings.items()]
    outcome = weft("train", "forecast", write_months(tmp_path / "a.csv"), *words)
    assert (outcome.code, message in outcome.err) == (2, True)
