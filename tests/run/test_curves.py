"""The picture of a training, from its journal alone."""

from __future__ import annotations

import json

import pytest

from weft.charts import check_format, draw, rendering
from weft.errors import ConfigError, RunError, WeftError
from weft.run import curves
from weft.run.curves import Curve, chart, draw_curves, own_metric, read_curve

pytestmark = pytest.mark.usefixtures("extras")

JOURNAL = [
    {"step": 1, "loss": 3.0, "rate": 0.1, "seconds": 0.1},
    {"step": 10, "loss": 2.0, "rate": 0.1, "seconds": 0.2},
    {"step": 10, "valid": {"accuracy": 0.5, "loss": 2.2}, "best": True, "seconds": 0.3},
    {"step": 20, "valid": {"accuracy": 0.75, "loss": 1.5}, "best": True, "seconds": 0.5},
]


@pytest.fixture
def folder(tmp_path):
    lines = "".join(json.dumps(line) + "\n" for line in JOURNAL)
    (tmp_path / "metrics.jsonl").write_text(lines, encoding="utf-8")
    (tmp_path / "config.json").write_text('{"task": "classify"}', encoding="utf-8")
    return tmp_path


def test_a_journal_is_read_but_for_a_line_that_was_cut_off(folder):
    with (folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"step": 30, "val')
    curve = read_curve(folder)
    assert curve.train == [(1, 3.0), (10, 2.0)]
    assert curve.valid == [(10, {"accuracy": 0.5, "loss": 2.2}), (20, {"accuracy": 0.75, "loss": 1.5})]
    assert own_metric(folder, curve) == "accuracy"


def test_the_metric_that_was_asked_for_is_drawn(folder):
    (folder / "config.json").write_text('{"task": "classify", "train": {"metric": "loss"}}', encoding="utf-8")
    assert own_metric(folder, read_curve(folder)) == "loss"


def test_long_journals_are_thinned_to_means(folder):
    lines = [json.dumps({"step": step, "loss": float(step)}) + "\n" for step in range(1, 4001)]
    (folder / "metrics.jsonl").write_text("".join(lines), encoding="utf-8")
    points = read_curve(folder).train
    assert len(points) == curves.MAX_POINTS
    assert points[0] == (6, 5.5)
    assert sum(loss for _, loss in points) / len(points) == pytest.approx(2000.5)


def test_the_picture_shows_both_losses_and_the_metric(folder):
    path = draw_curves(folder)
    assert path == folder / "curves.svg"
    text = path.read_text(encoding="utf-8")
    for word in ("training", "validation", "loss", "validation accuracy", "update"):
        assert f">{word}<" in text


@pytest.mark.covers("I9")
def test_several_runs_are_overlaid_in_every_format(folder, tmp_path):
    curve = read_curve(folder)
    other = Curve([(1, 4.0)], [(10, {"accuracy": 0.25, "loss": 3.0})])
    picture = chart({"runs/small": curve, "runs/wide": other}, metric="accuracy")
    found = picture.to_dict()
    drawn = [point for data in found["datasets"].values() for point in data] if "datasets" in found else []
    drawn += [point for panel in found["hconcat"] for point in panel.get("data", {}).get("values", [])]
    drawn += [
        point
        for panel in found["hconcat"]
        for layer in panel["layer"]
        for point in layer.get("data", {}).get("values", [])
    ]
    assert {"step": 10, "value": 0.25, "part": "validation", "run": "runs/wide"} in drawn
    assert draw(picture, tmp_path / "both.png").read_bytes().startswith(b"\x89PNG")
    assert "runs/wide" in draw(picture, tmp_path / "both.svg").read_text(encoding="utf-8")
    page = draw(picture, tmp_path / "both.html").read_text(encoding="utf-8")
    assert "<script src=" not in page, "it opens without a network"


def test_nothing_is_drawn_without_the_extra_or_without_scores(folder, monkeypatch):
    (folder / "metrics.jsonl").write_text(json.dumps(JOURNAL[0]) + "\n", encoding="utf-8")
    assert draw_curves(folder) is None
    (folder / "metrics.jsonl").unlink()
    assert draw_curves(folder) is None
    monkeypatch.setattr(rendering, "find_spec", lambda name: None)
    assert draw_curves(folder) is None
    with pytest.raises(WeftError, match="pip install 'altair"):
        check_format(folder / "curves.svg")
    assert not list(folder.glob("curves*"))


def test_numbers_that_cannot_be_drawn_are_left_out(folder):
    endless = {"step": 15, "valid": {"accuracy": 0.6, "loss": float("inf")}, "best": False}
    with (folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(endless) + "\n")
    assert draw_curves(folder) is not None


def test_mistakes_are_named(folder):
    with pytest.raises(RunError, match="never validated"):
        own_metric(folder, Curve([(1, 2.0)], []))
    with pytest.raises(ConfigError, match=r"cannot draw \.jpg"):
        check_format(folder / "curves.jpg")
    with pytest.raises(ConfigError, match='did you mean "accuracy"'):
        chart({"": read_curve(folder)}, metric="acuracy")
    with pytest.raises(RunError, match=r"metrics\.jsonl"):
        read_curve(folder / "nothing")
    (folder / "metrics.jsonl").write_text("no journal\n", encoding="utf-8")
    with pytest.raises(RunError, match=r"metrics\.jsonl:1"):
        read_curve(folder)
