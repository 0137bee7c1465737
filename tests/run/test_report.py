"""What a report of a classifier says: simple models, intervals, calibration; labels that training never saw."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch

import weft as package
from weft.evaluate import calibrate
from weft.run.conclusions import conclusions
from weft.run.prepare import prepare

SMALL = {"embedding": 8, "hidden": 8}


def noisy(path: Path, count: int) -> str:
    """Colours and animals, one in five with the wrong label: probabilities of a model that is sure are wrong."""
    draw = random.Random(0)
    kinds = [["red", "green", "blue", "black"], ["cat", "dog", "cow", "fox"]]
    lines = []
    for number in range(count):
        label = draw.randrange(2)
        shown = label if draw.random() < 0.8 else 1 - label
        lines.append(f"{draw.choice(kinds[label])} {draw.choice(kinds[label])} {number}\t{'ab'[shown]}\n")
    path.write_text("".join(lines), encoding="utf-8")
    return str(path)


def test_a_report_has_baselines_intervals_and_calibration(weft: Any, tmp_path: Path) -> None:
    train, test = noisy(tmp_path / "train.tsv", 900), noisy(tmp_path / "test.tsv", 60)
    words = ("train", "classify", train, f"data.test={test}", "train.steps=20", "model.hidden=8", "model.embedding=8")
    done = weft(*words, "--out", "run")
    assert done.code == 0, done.err
    assert "labels: " in done.err.split("epoch")[0]
    assert "macro f1" in done.err
    assert "± " in done.err
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    for part in ("valid", "test"):
        assert set(report["baselines"][part]) == {"majority", "bag"}
        assert report["baselines"][part]["bag"]["accuracy"] > 0.65
        low, high = report["details"][part]["intervals"]["accuracy"]
        assert low < report[part]["accuracy"] < high
        assert set(report["calibration"][part]) == {"before", "after"}
    assert report["calibration"]["examples"] == 90
    for line in conclusions(report):
        assert line in done.err
        assert line in (tmp_path / "run" / "README.md").read_text()

    other = tmp_path / "other.tsv"
    other.write_text("red red\ta\ncat\tsomething else\n", encoding="utf-8")
    shown = weft("evaluate", "run", str(other))
    assert "never saw, all counted as wrong: 1 (something else)" in shown.out
    found = package.load("run").evaluate(str(other))
    assert found.metrics["accuracy"] <= 0.5
    assert {row["label"] for row in found.details["per_class"]} <= {"a", "b"}
    (tmp_path / "one.tsv").write_text("red red\tnothing like it\n", encoding="utf-8")
    assert package.load("run").evaluate(str(tmp_path / "one.tsv")).metrics["accuracy"] == 0


def test_the_temperature_becomes_part_of_the_model(tmp_path: Path) -> None:
    prepared = prepare({"task": "classify", "data": {"train": noisy(tmp_path / "t.tsv", 700)}, "model": SMALL})
    model = prepared.task.build(prepared.config.model, prepared.task.codec).eval()
    with torch.no_grad():
        model.scores.weight *= 30
    logits = model(torch.tensor([[7, 8, 9]]), torch.tensor([3]))
    found = calibrate(prepared.task, model, prepared.valid)
    assert found["examples"] == 70
    assert found["temperature"] > 1.5
    again = model(torch.tensor([[7, 8, 9]]), torch.tensor([3]))
    torch.testing.assert_close(again * found["temperature"], logits)


@pytest.mark.parametrize(
    ("ours", "bag", "count", "said"),
    [
        (0.81, 0.853, 5000, "A bag of n-grams is better here: accuracy 85.3% against 81.0% on valid"),
        (
            0.80,
            0.85,
            20,
            "does as well here: accuracy 85.0% against 80.0% on valid (within the noise of 20 examples)",
        ),
        (
            0.85,
            0.80,
            20,
            "does as well here: accuracy 80.0% against 85.0% on valid (within the noise of 20 examples)",
        ),
        (0.95, 0.80, 5000, None),
    ],
)
def test_the_report_says_which_is_better(ours: float, bag: float, count: int, said: str | None) -> None:
    details = {"intervals": {"accuracy": [0, 1]}, "count": count, "count_of": "examples"}
    baselines = {"majority": {"accuracy": 0.5, "f1": 0.3}, "bag": {"accuracy": bag, "f1": bag}}
    report = {"valid": {"accuracy": ours, "f1": ours}, "details": {"valid": details}, "baselines": {"valid": baselines}}
    lines = [line for line in conclusions(report) if " here: " in line]
    assert len(lines) == (said is not None)
    assert said is None or said in lines[0]
