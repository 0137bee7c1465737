"""A mistake in a cell of one's own is reported with its line in the file that has it; a slow cell is named once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from torch import nn

import weft as package
from weft.errors import ConfigError
from weft.nn import Cell, choose_cell

SOURCE = """\
import torch
from torch import nn
from weft.nn import Cell


class Mine(Cell):
    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size)
        self.from_input = nn.Linear(input_size, hidden_size)

    def step(self, x, h):
        h = 0.9 * h + torch.tanh(self.from_input(x))
        return h, h
"""
SMALL = ["train.steps=3", "model.hidden=8", "model.embedding=8", "model.cell=Mine", "--import", "mine.py:Mine"]


def change(old: str, new: str) -> str:
    assert old in SOURCE
    return SOURCE.replace(old, new)


MISTAKES = {
    "no step": (change("def step", "def stap"), r"6: Mine has no step \(a step is step\(self, x, state\)"),
    "wrong width": (
        change("nn.Linear(input_size, hidden_size)", "nn.Linear(hidden_size + 1, hidden_size)"),
        r"12: Mine\.step: RuntimeError: mat1 and mat2 .*\(x was \(3, 8\), the state \(3, 8\)\)",
    ),
    "wrong name": (
        change("0.9 * h", "self.leek * h"),
        r"12: Mine\.step: AttributeError: 'Mine' object has no .*'leek'",
    ),
    "a choice by values": (
        change("        return", "        if h > 0:\n            h = -h\n        return"),
        r"13: Mine\.step: RuntimeError: Boolean value .*\(a choice by values is torch\.where",
    ),
    "no state returned": (change("return h, h", "return h"), r"11: Mine\.step returns Tensor, not \(output, state\)"),
    "three values": (
        change("return h, h", "return h, h, h"),
        r"11: Mine\.step returns 3 values, not \(output, state\)",
    ),
    "nothing returned": (change("return h, h", "pass"), r"11: Mine\.step returns NoneType, not \(output, state\)"),
    "a narrow output": (
        change("return h, h", "return h[:, :5], h"),
        r"11: Mine\.step returns an output of \(3, 5\), where \(3, 8\) is expected \(.*self\.output_size\)",
    ),
    "a wide state": (
        change("return h, h", "return h, torch.cat((h, h), -1)"),
        r"11: Mine\.step returns a state of \(3, 16\), where it was given \(3, 8\)",
    ),
    "a list as state": (change("return h, h", "return h, [h]"), r"11: Mine\.step returns a state of list, where"),
    "a state changed in place": (
        change("h = 0.9 * h + torch", "h += torch"),
        r"11: Mine\.step changes the state in place \(make a new one: h = h \+ x, not h \+= x",
    ),
    "an input changed in place": (
        change("h = 0.9 * h + torch", "x *= 2; h = h + torch"),
        r"11: Mine\.step changes its input in place \(make a new one",
    ),
    "a gate changed in place": (
        change("        return", "        h = h.exp()\n        h += 1\n        return"),
        r"11: Mine\.step changes a tensor in place that its gradient needs \(make a new one",
    ),
    "too few arguments": (
        change("def step(self, x, h)", "def step(self, x)"),
        r"11: Mine\.step: TypeError: .*positional",
    ),
    "no sizes": (
        change("super().__init__(input_size, hidden_size)", "nn.Module.__init__(self)"),
        r"7: Mine has no sizes \(call super\(\)\.__init__\(input_size, hidden_size\) first\)",
    ),
    "no super": (
        change("        super().__init__(input_size, hidden_size)\n", ""),
        r"8: Mine\(8, 8\): AttributeError: cannot assign module before Module\.__init__\(\) call",
    ),
    "later": (
        change("        return", "        if h.size(0) > 3:\n            raise ValueError('now')\n        return"),
        r"14: ValueError: now \(in the file you imported; --debug shows more\)",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_on_the_command_line(mistake, weft, labelled):
    source, message = MISTAKES[mistake]
    Path("mine.py").write_text(source, encoding="utf-8")
    outcome = weft("train", "classify", labelled, *SMALL, "-q")
    assert outcome.code == 2
    assert outcome.err.count("\n") == 1
    assert outcome.err.startswith("error mine.py:")
    assert re.match(message, outcome.err.removeprefix("error mine.py:"))


class Chooses(Cell):
    """Its step depends on the values of a tensor, which only Python can follow."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.from_input = nn.Linear(input_size, hidden_size)

    def step(self, x: torch.Tensor, h: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = torch.tanh(self.from_input(x)) + (0.5 * h if h.sum() > 0 else 0.1 * h)
        return h, h


class Wrong(Chooses):
    def step(self, x: torch.Tensor, h: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return h, self.from_input(h[:, :1])


def config(data: str) -> dict:
    model = {"cell": "mine", "embedding": 8, "hidden": 8}
    return {"task": "classify", "data": {"train": data}, "model": model, "train": {"steps": 3}}


def test_in_python_the_line_is_that_of_the_class(labelled, tmp_path):
    line = next(n for n, text in enumerate(Path(__file__).read_text().split("\n"), 1) if "h[:, :1])" in text)
    with pytest.raises(ConfigError, match=rf"test_own_mistakes\.py:{line}: Wrong\.step: RuntimeError"):
        package.train(config(labelled), out=tmp_path / "run", quiet=True, cells={"mine": Wrong})


def test_a_function_that_makes_no_cell_is_named():
    def make(input_size: int, hidden_size: int) -> nn.Module:
        return nn.Linear(input_size, hidden_size)

    with pytest.raises(ConfigError, match=r"test_own_mistakes\.py:\d+: make makes Linear, not a cell"):
        choose_cell("mine", {"mine": make})(3, 4)


def test_leaving_the_fast_path_is_noted_once_at_the_start(labelled, tmp_path, capsys):
    tree = config(labelled)
    tree["model"] |= {"layers": 2, "bidirectional": True}
    run = package.train(tree, out=tmp_path / "run", cells={"mine": Chooses})
    said = "Chooses runs more slowly, step by step, the cell as it is written: what it does depends on the values"
    assert capsys.readouterr().err.count(said) == 1
    assert "depends on the values" in run.model.encoder.rnn.explain()


def test_a_cell_with_kernels_is_not_noted(labelled, tmp_path, capsys):
    package.train({**config(labelled), "model": {"cell": "gru", "hidden": 8}}, out=tmp_path / "run")
    assert "more slowly" not in capsys.readouterr().err


def test_trying_a_cell_draws_no_random_numbers():
    class Noisy(Chooses):
        def step(self, x: torch.Tensor, h: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            h = torch.tanh(self.from_input(x)) + torch.randn_like(h)
            return h, h

    torch.manual_seed(0)
    choose_cell("mine", {"mine": Noisy})(3, 4)
    after = torch.rand(3)
    torch.manual_seed(0)
    Noisy(3, 4)
    assert torch.equal(torch.rand(3), after)
