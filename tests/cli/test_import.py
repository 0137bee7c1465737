"""--import: a cell from the user's own file on the command line, from training to prediction."""

from __future__ import annotations

import io
import sys
import tomllib
from pathlib import Path

import pytest

SOURCE = """
import torch
from torch import nn

from weft.nn import Cell


class Leaky(Cell):
    def __init__(self, input_size, hidden_size, *, leak: float = 0.9):
        super().__init__(input_size, hidden_size)
        self.leak = leak
        self.from_input = nn.Linear(input_size, hidden_size)

    def step(self, x, h):
        h = self.leak * h + torch.tanh(self.from_input(x))
        return h, h
"""
SMALL = ["train.steps=3", "model.hidden=8", "model.embedding=8"]


@pytest.fixture
def file(tmp_path):
    (tmp_path / "leaky.py").write_text(SOURCE, encoding="utf-8")
    return "leaky.py"


def give(monkeypatch, text):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8"))


def test_train_evaluate_predict(weft, labelled, file, monkeypatch):
    options = ["--import", f"{file}:Leaky"]
    trained = weft("train", "classify", labelled, *SMALL, "model.cell=Leaky", "model.cell.leak=0.5", *options)
    assert trained.code == 0, trained.err
    assert f"Next: weft predict runs/classify-1 --import {file}:Leaky" in trained.err
    assert weft("evaluate", "runs/classify-1", labelled, *options).code == 0
    give(monkeypatch, "the red\n")
    assert weft("predict", "runs/classify-1", *options).out.strip() in ("colour", "animal")


def test_a_name_of_its_own(weft, texts, file, monkeypatch):
    options = ["--import", f"mine={file}:Leaky"]
    assert weft("train", "lm", texts, *SMALL, "model.cell=mine", *options, "--out", "run", "-q").code == 0
    give(monkeypatch, "the cat\n")
    assert weft("predict", "run", *options, "--max-length", "5").out.startswith("the cat")


def test_without_it_one_line_has_the_cure(weft, texts, file):
    words = ["train", "lm", texts, *SMALL, "model.cell=Leaky", "--out", "run", "-q"]
    refused = weft(*words)
    assert refused.code == 2
    assert refused.err.count("\n") == 1
    assert 'model.cell: "Leaky" is not a cell' in refused.err
    assert "--import Leaky=FILE.py:CLASS" in refused.err
    assert not Path("run").exists()
    assert weft(*words, "--import", f"{file}:Leaky").code == 0
    for verb in (["predict", "run"], ["evaluate", "run", texts], ["config", "diff", "run", "run"]):
        outcome = weft(*verb)
        assert outcome.code == 2
        assert outcome.err.count("\n") == 1
        assert '"Leaky"' in outcome.err
        assert "--import Leaky=FILE.py:CLASS" in outcome.err


def test_config_commands_know_it(weft, texts, file):
    options = ["--import", f"{file}:Leaky"]
    Path("my.toml").write_text(f'task = "lm"\n[data]\ntrain = "{texts}"\n[model]\ncell = "Leaky"\n', encoding="utf-8")
    assert weft("config", "check", "my.toml").code == 2
    assert weft("config", "check", "my.toml", *options).code == 0
    filled = weft("config", "fill", "my.toml", "model.cell.leak=0.25", *options).out
    assert tomllib.loads(filled)["model"]["cell"] == {"kind": "Leaky", "leak": 0.25}
    wrong = weft("config", "check", "my.toml", "model.cell.leak=much", *options)
    assert 'model.cell.leak = "much": should be a valid number' in wrong.err


def test_a_file_that_cannot_be_run_is_one_line(weft, texts, tmp_path):
    (tmp_path / "broken.py").write_text("import nothing_of_this_name\n", encoding="utf-8")
    outcome = weft("train", "lm", texts, "model.cell=X", "--import", "broken.py:X")
    assert outcome.code == 2
    assert outcome.err.count("\n") == 1
    assert "--import broken.py:1: cannot be run: ModuleNotFoundError" in outcome.err
