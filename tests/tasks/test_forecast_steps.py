"""Tables without time stamps: their rows are numbered, in the answer as in its picture."""

from __future__ import annotations

import pytest

import weft as package
from weft.tasks.forecast_picture import draw_forecasts, points_of

QUICK = {"model.kind": "linear", "train.epochs": 1}
VALUES = [float(step % 7) for step in range(40)]


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
