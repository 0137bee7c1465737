"""The views of parameters and of learning curves, and what all views share: files, pages, options."""

from __future__ import annotations

import json
import math
import re

import pytest

import weft
from weft.charts import Figure, Table, page
from weft.errors import ConfigError, RunError
from weft.inspect import LearningCurves, Nothing, Option, ParameterTable, ViewKind, curves, parameters
from weft.nn import RNN
from weft.run.curves import Curve

pytestmark = pytest.mark.usefixtures("extras")

JOURNAL = [
    {"step": 5, "loss": 3.0},
    {"step": 10, "valid": {"accuracy": 0.5, "loss": 2.2}},
    {"step": 20, "valid": {"accuracy": 0.75, "loss": 1.5}},
]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"task": "classify"}), encoding="utf-8")
    lines = "".join(json.dumps(line) + "\n" for line in JOURNAL)
    (tmp_path / "metrics.jsonl").write_text(lines, encoding="utf-8")
    return tmp_path


@pytest.mark.covers("I7")
def test_boxes_of_parts_fill_the_box_above_them():
    view = parameters(RNN("lstm", 8, 20, layers=2))
    assert isinstance(view, ParameterTable)
    assert view.to_dict()["total"] == view.root.total
    (boxes,) = view.chart().to_dict()["datasets"].values()
    assert boxes[0]["end"] == view.root.total
    for level in range(1, 1 + max(box["depth"] for box in boxes)):
        inside = [box for box in boxes if box["depth"] == level]
        above = [box for box in boxes if box["depth"] == level - 1]
        assert all(any(up["start"] <= box["start"] and box["end"] <= up["end"] for up in above) for box in inside)
    assert any(str(view.root.total)[-3:] in line.plain for line in view.lines(80))


@pytest.mark.covers("I9")
def test_curves_are_those_of_the_journal(folder):
    view = curves(folder)
    assert isinstance(view, LearningCurves)
    (run,) = view.to_dict()["runs"].values()
    assert run["train"] == [[5, 3.0]]
    assert run["valid"][-1] == [20, {"accuracy": 0.75, "loss": 1.5}]
    assert view.metric == "accuracy"
    assert any("50.00% → 75.00%" in line.plain for line in view.lines(80))
    assert view.save(folder / "c.svg").read_text(encoding="utf-8").startswith("<svg")
    (folder / "metrics.jsonl").write_text(json.dumps(JOURNAL[0]) + "\n", encoding="utf-8")
    begun = curves(folder)  # the first epoch of a training
    assert isinstance(begun, LearningCurves)
    assert begun.metric == "loss"
    assert next(line.plain for line in begun.lines(80)) == "training loss"
    assert begun.figure().specification is not None
    (folder / "metrics.jsonl").write_text("", encoding="utf-8")
    assert isinstance(curves(folder), Nothing)
    (folder / "metrics.jsonl").unlink()
    (folder / "manifest.json").touch()
    assert isinstance(curves(folder), Nothing), "an imported model has no journal"
    (folder / "manifest.json").unlink()
    with pytest.raises(RunError, match="is it a run of weft"):
        curves(folder)
    with pytest.raises(RunError, match="from 1 to 8"):
        curves([])


def test_runs_with_other_metrics_share_the_loss(folder, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    (other / "config.json").write_text(json.dumps({"task": "lm"}), encoding="utf-8")
    lines = [{"step": 10, "valid": {"perplexity": 9.0, "loss": 2.2}}]
    (other / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    view = curves([folder, other])
    assert "nan" not in "\n".join(line.plain for line in view.lines(80))
    note = f"{other} is left out of validation accuracy: it measured perplexity"
    assert note in view.summary
    assert any(note in line.plain for line in view.lines(80))
    assert "perplexity" in view.save(folder / "both.svg").read_text(encoding="utf-8")
    assert not curves([folder, other], metric="loss").notes
    assert view.chart().to_dict()["hconcat"][0]["layer"][0]["title"] == "loss (faint: training)"
    with pytest.raises(ConfigError, match="was not measured"):
        curves([folder, other], metric="bleu").chart()


def test_the_loss_can_be_smoothed_and_its_axis_logarithmic(folder):
    curve = Curve([(1, 4.0), (2, 2.0), (3, math.nan), (4, 1.0)], [])
    assert curve.smoothed(0.5) == [(1, 4.0), (2, (2 + 0.5 * 4) / 1.5), (4, (1 + 0.5 * 2 + 0.25 * 4) / 1.75)]
    plain, drawn = curves(folder), curves(folder, log=True, smooth=0.5)
    assert drawn.to_dict() == plain.to_dict(), "the data is what was measured"
    loss, accuracy = map(json.dumps, drawn.chart().to_dict()["hconcat"])
    assert "as measured" in loss
    assert '"type": "log"' in loss
    assert '"type": "log"' not in accuracy
    assert "as measured" not in json.dumps(plain.chart().to_dict())


def test_a_picture_says_what_it_shows(tmp_path):
    view = parameters(RNN("gru", 2, 3)).with_code("", "runs/demo: the cat")
    text = view.save(tmp_path / "p.svg").read_text(encoding="utf-8")
    assert "54 parameters" in text
    assert "runs/demo: the cat" in text
    assert "runs/demo: the cat" in view.save(tmp_path / "p.html").read_text(encoding="utf-8")


def test_a_page_is_complete_and_what_comes_from_data_stays_text(tmp_path):
    hostile = "</script><img src=x onerror=alert(1)>"
    chart = {"mark": "bar", "data": {"values": [{"a": hostile}]}}
    figure = Figure(hostile, hostile, chart, hostile, hostile, Table((hostile,), [(hostile,)]))
    text = page(hostile, [figure], "window.vegaEmbed = () => {};")
    assert hostile not in text
    assert "<img" not in text
    assert not re.search(r"(src|href)=.?http", text)
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)[1]
    assert "default-src 'none'" in policy
    assert policy.count("sha256-") == 2
    assert "unsafe-eval" not in policy


def test_a_view_is_written_in_the_format_of_its_ending(tmp_path):
    view = parameters(RNN("gru", 2, 3))
    assert json.loads(view.save(tmp_path / "p.json").read_text(encoding="utf-8"))["total"] == view.root.total
    assert view.save(tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    html = view.save(tmp_path / "p.html").read_text(encoding="utf-8")
    assert "vegaEmbed" in html
    for theme in ("#ffffff", "#14161a"):
        assert theme in html, "the page has both themes"
    light, dark = (view.save(tmp_path / f"{dark}.svg", dark=dark).read_text(encoding="utf-8") for dark in (False, True))
    assert "#14161a" in dark
    assert "#14161a" not in light
    with pytest.raises(ConfigError, match=r"cannot write \.jpg"):
        view.save(tmp_path / "p.jpg")
    assert "altair" in str(type(view.chart()))


def test_options_are_checked_by_their_types_and_bounds():
    kind = ViewKind("toy", "?", lambda run, n=1: None, options={"n": Option("int", 1, "number", 1, 8)})
    assert kind.check_options({"n": "3"}) == {"n": 3}
    for value in ("x", 0, 9, None, float("nan"), [1]):
        with pytest.raises(ConfigError, match=r"n: .*from 1 to 8"):
            kind.check_options({"n": value})
    with pytest.raises(ConfigError, match="toy has n"):
        kind.check_options({"m": 1})
    flag = Option("bool", False, "flag")
    assert flag.checked("f", "true") is True
    with pytest.raises(ConfigError, match="is no bool"):
        flag.checked("f", "yes")
    with pytest.raises(ConfigError, match="one of a, b"):
        Option("choice", "a", "letter", choices=("a", "b")).checked("c", "z")


def test_every_view_has_a_question_and_a_function_of_its_name():
    from weft.inspect import VIEWS, view_kind

    known = [name for name in VIEWS if hasattr(weft.inspect, name)]
    assert {"gradients", "parameters", "curves"} <= set(known)
    for name in known:
        kind = view_kind(name)
        assert kind.name == name
        assert kind.question.endswith("?")
        assert kind.function is getattr(weft.inspect, name)
