"""weft inspect gates and states: text, files and JSON of a run, a search in a file, and mistakes in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import weft as package

pytestmark = pytest.mark.usefixtures("extras")

LINES = ['the "CAT" runs', 'a "DOG SEES" the cat', "the dog runs home"] * 8

OWN = """
import torch
from torch import nn
from weft.nn import Cell

class Leaky(Cell):
    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size)
        self.leak = nn.Linear(input_size, hidden_size)
        self.new = nn.Linear(input_size, hidden_size)

    def step(self, x, h):
        keep = torch.sigmoid(self.leak(x))
        h = keep * h + torch.tanh(self.new(x))
        return h, h
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = {"kind": "rnn", "hidden": 6, "embedding": 6, "tie": False}
    config = {"task": "lm", "data": {"train": LINES, "valid": LINES}, "text": {"kind": "char"}, "model": model}
    return package.train({**config, "train": {"epochs": 1}}, out=tmp_path_factory.mktemp("cli") / "run").folder


def test_gates_in_all_formats(weft, run, tmp_path):
    shown = weft("inspect", "gates", str(run), 'a "CAT"')
    assert shown.code == 0
    assert "Gates of the LSTM, decoder, layer 1" in shown.out
    assert "∂c_T/∂c_t" in shown.out
    found = json.loads(weft("inspect", "gates", str(run), 'a "CAT"', "--json", "--values", "all").out)
    assert [value["name"] for value in found["values"]] == ["i", "f", "o", "g", "h", "c"]
    assert weft("inspect", "gates", str(run), "ab", "-o", "gates.json").code == 0
    assert json.loads((tmp_path / "gates.json").read_text())["tokens"] == ["<sos>", "a", "b"]
    assert weft("inspect", "gates", str(run), "ab", "-o", "gates.svg").code == 0
    assert "<svg" in (tmp_path / "gates.svg").read_text()


def test_states_of_a_text_and_a_search_in_a_file(weft, run, tmp_path):
    (tmp_path / "corpus.txt").write_text("\n".join(LINES), encoding="utf-8")
    assert "State c of the decoder" in weft("inspect", "states", str(run), "the cat", "--state", "c").out
    found = weft("inspect", "states", str(run), "corpus.txt", "--inside", '"', '"', "--top", "2")
    assert found.code == 0
    assert 'on between " and "' in found.out
    assert found.out.count("precision") == 2
    by_token = weft("inspect", "states", str(run), "corpus.txt").out
    assert "explained by the token" in by_token
    assert "in standard deviations" in by_token
    assert weft("inspect", "states", str(run), "a.txt ").code == 0, "a blank says that it is a text"
    assert "on in “CAT”" in weft("inspect", "states", str(run), "corpus.txt", "--like", 'the "[[CAT]]" runs').out
    together = json.loads(weft("inspect", "states", str(run), "corpus.txt", "--on", "1,2", "--json").out)
    assert [unit["unit"] for unit in together["units"]] == [1, 2]


@pytest.mark.parametrize("length", [300, 5000])
def test_a_long_text_is_no_name_of_a_file(weft, run, length):
    found = weft("inspect", "states", str(run), "cat " * (length // 4), "--json")
    assert found.code == 0, found.err
    assert len(json.loads(found.out)["tokens"]) > 100


def test_a_cell_of_ones_own(weft, tmp_path):
    (tmp_path / "mine.py").write_text(OWN, encoding="utf-8")
    (tmp_path / "text.txt").write_text("\n".join(LINES), encoding="utf-8")
    own = ("--import", "mine.py:Leaky")
    settings = ("model.kind=rnn", "model.cell=Leaky", "model.hidden=4", "model.embedding=4", "model.tie=false")
    trained = weft("train", "lm", "text.txt", *settings, "text.kind=char", "train.epochs=1", "--out", "run", *own)
    assert trained.code == 0, trained.err
    found = json.loads(weft("inspect", "gates", "run", "the cat", "--json", *own).out)
    assert (found["cell"], [value["name"] for value in found["values"]]) == ("Leaky", ["keep"])
    assert (found["products"][0]["state"], found["products"][0]["factor"]) == ("h", "keep")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("gates", "ab", "--layer", "5"), "there is one layer"),
        (("gates", "ab", "--values", "some"), "one of gates, all"),
        (("gates", "ab", "-o", "gates.gif"), "cannot write .gif"),
        (("states", "no such file", "--inside", "(", ")"), "--inside: searches a file of texts"),
        (("states", "missing.txt", "--inside", "(", ")"), "missing.txt: there is no such file"),
        (("states", "missing.txt"), "write a blank after it"),
        (("states", "data/missing"), "data/missing: there is no such file"),
        (("states", "corpus.txt", "--units", "3"), "--units: is for a text"),
        (("states", "corpus.txt", "--on", "a"), "--on: 'a' are no units"),
        (("states", "corpus.txt", "--on", "99"), "there are 6 units"),
    ],
)
def test_mistakes_are_one_line(weft, run, tmp_path, words, message):
    (tmp_path / "corpus.txt").write_text("\n".join(LINES), encoding="utf-8")
    view, *rest = words
    found = weft("inspect", view, str(run), *rest)
    assert found.code == 2
    assert message in found.err
    assert "Traceback" not in found.err
