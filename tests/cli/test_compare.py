"""weft compare: the table, the settings, the intervals, the picture."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

SMALL = ["model.hidden=8", "model.embedding=8", "-q"]


@pytest.fixture
def two(weft, labelled):
    """The folders of a trained run and of one with hardly any updates."""
    assert weft("train", "classify", labelled, "train.steps=40", "train.rate=0.02", *SMALL, "--out", "good").code == 0
    assert weft("train", "classify", labelled, "train.steps=1", "train.rate=1e-6", *SMALL, "--out", "poor").code == 0
    return labelled


def test_reports_are_compared_in_one_table(weft, two):
    shown = weft("compare", "good", "poor")
    assert shown.code == 0, shown.err
    for word in ("scores on valid", "good", "poor", "accuracy", "parameters", "tokens/s", "train.rate", "1e-06"):
        assert word in shown.out
    assert "model.hidden" not in shown.out, "only settings that differ"
    assert "--data FILE" in shown.err

    found = json.loads(weft("compare", "good", "poor", "--json").out)
    report = json.loads(Path("good/report.json").read_text(encoding="utf-8"))
    assert found["runs"][0]["metrics"] == report["valid"]
    assert found["runs"][1]["settings"] == {"train.steps": 1, "train.rate": 1e-6}
    assert found["runs"][0]["differences"] == found["runs"][1]["differences"] == {}


@pytest.mark.covers("I9")
def test_a_file_of_examples_gives_intervals(weft, two):
    found = json.loads(weft("compare", "good", "poor", "--data", two, "--json", "--metric", "accuracy").out)
    assert found["measured_on"] == two
    good, poor = found["runs"]
    assert list(good["metrics"]) == ["accuracy"]
    interval = poor["differences"]["accuracy"]
    assert interval["low"] <= interval["difference"] <= interval["high"] < 0
    assert interval["difference"] == pytest.approx(poor["metrics"]["accuracy"] - good["metrics"]["accuracy"])
    shown = weft("compare", "good", "poor", "--data", two)
    assert "difference to good [95% interval]" in shown.out
    assert "] *" in shown.out


@pytest.mark.usefixtures("extras")
def test_curves_are_overlaid(weft, two):
    shown = weft("compare", "good", "poor", "--plot", "curves.svg")
    assert shown.code == 0, shown.err
    text = Path("curves.svg").read_text(encoding="utf-8")
    assert ">good<" in text
    assert ">poor<" in text
    assert weft("compare", "good", "poor", "--plot", "curves.txt").code == 2


def test_runs_that_cannot_be_compared_are_an_error(weft, two, texts):
    assert weft("train", "lm", texts, "train.steps=1", *SMALL, "--out", "lm").code == 0
    assert "different tasks" in weft("compare", "good", "lm").err
    assert "named twice" in weft("compare", "good", "good").err
    assert 'did you mean "accuracy"' in weft("compare", "good", "poor", "--metric", "acuracy").err
    assert weft("compare", "good", "nothing").code == 2

    assert weft("train", "lm", texts, "train.steps=1", "text.kind=char", *SMALL, "--out", "char").code == 0
    assert "compare bits_per_character" in weft("compare", "lm", "char").err
    both = json.loads(weft("compare", "lm", "char", "--data", texts, "--json").out)
    assert "bits_per_character" in both["runs"][1]["differences"]


def test_runs_on_different_files_are_noted(weft, two):
    Path("other.tsv").write_text(Path(two).read_text(encoding="utf-8"), encoding="utf-8")
    assert weft("train", "classify", "other.tsv", "train.steps=1", *SMALL, "--out", "other").code == 0
    assert "measured on different files" in weft("compare", "good", "other").err
    assert "measured on different files" not in weft("compare", "good", "poor").err
