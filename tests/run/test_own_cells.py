"""Cells of a person's own: trained by name, loaded when they are given again, never found in the folder."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import weft
from weft.catalog import CELLS
from weft.errors import ConfigError, RunError
from weft.nn import Cell
from weft.run import import_classes

SOURCE = '''
"""A cell with options, a state of two fields and a dataclass, as a person might write it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from weft.nn import Cell


@dataclass
class Note:
    text: str = ""


class TwoSpeeds(NamedTuple):
    fast: Tensor
    slow: Tensor


class Traces(Cell):
    state_type = TwoSpeeds

    def __init__(self, input_size: int, hidden_size: int, *, leak: float = 0.9) -> None:
        super().__init__(input_size, hidden_size)
        self.leak = leak
        self.from_input = nn.Linear(input_size, hidden_size)

    def step(self, x: Tensor, state: TwoSpeeds) -> tuple[Tensor, TwoSpeeds]:
        fast = torch.tanh(self.from_input(x) + state.slow)
        slow = self.leak * state.slow + (1 - self.leak) * fast
        return fast - slow, TwoSpeeds(fast, slow)


class Other(Cell):
    pass
'''


class Leaky(Cell):
    """h' = leak h + tanh(W x)"""

    def __init__(self, input_size: int, hidden_size: int, *, leak: float = 0.9) -> None:
        super().__init__(input_size, hidden_size)
        self.leak = leak
        self.from_input = nn.Linear(input_size, hidden_size)

    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = self.leak * h + torch.tanh(self.from_input(x))
        return h, h


class Loud(Leaky):
    """The same weights, another step."""

    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        output, h = super().step(x, h)
        return 3 * output, h


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "traces.py"
    path.write_text(SOURCE, encoding="utf-8")
    return path


@pytest.fixture
def run(labelled: str, tmp_path: Path) -> weft.Run:
    model = {"cell": {"kind": "mine", "leak": 0.5}, "embedding": 8, "hidden": 8}
    config = {"task": "classify", "data": {"train": labelled}, "model": model, "train": {"steps": 3}}
    return weft.train(config, out=tmp_path / "run", quiet=True, cells={"mine": Leaky})


@pytest.mark.covers("R7")
def test_a_run_with_an_own_cell_trains_loads_and_answers(run: weft.Run) -> None:
    cell = run.model.encoder.rnn.layers[0].cells[0]
    assert isinstance(cell, Leaky)
    assert cell.leak == 0.5
    again = weft.load(run.folder, cells={"mine": Leaky})
    assert again.config == run.config
    assert again.predict(["the red"]) == run.predict(["the red"])


def test_options_of_decode_need_no_cell_again(texts: str, tmp_path: Path) -> None:
    model = {"cell": "mine", "embedding": 8, "hidden": 8}
    config = {"task": "lm", "data": {"train": texts}, "model": model, "train": {"steps": 1}}
    run = weft.train(config, out=tmp_path / "run", quiet=True, cells={"mine": Leaky})
    assert run.decode({"beam": 3}).beam == 3


def test_the_folder_names_the_cell_and_its_options_and_nothing_more(run: weft.Run) -> None:
    config = json.loads((run.folder / "config.json").read_text(encoding="utf-8"))
    assert config["model"]["cell"] == {"kind": "mine", "leak": 0.5}
    assert 'weft.load("PATH_TO_THIS_FOLDER", cells={"mine": …})' in (run.folder / "README.md").read_text("utf-8")


def test_without_the_cell_one_line_says_which_is_missing_and_how_to_give_it(run: weft.Run) -> None:
    with pytest.raises(RunError) as caught:
        weft.load(run.folder)
    assert str(caught.value) == (
        f'{run.folder}: has a cell of its own, "mine" '
        '(give its class: --import mine=FILE.py:CLASS or cells={"mine": CLASS})'
    )


def test_two_loads_with_different_cells_of_one_name_do_not_disturb_each_other(run: weft.Run) -> None:
    before = dict(CELLS)
    quiet, loud = (weft.load(run.folder, cells={"mine": kind}) for kind in (Leaky, Loud))
    kinds = [type(loaded.model.encoder.rnn.layers[0].cells[0]) for loaded in (quiet, loud, run)]
    assert kinds == [Leaky, Loud, Leaky]
    one, three = (loaded.predict(["the red and the cow"])[0].probabilities for loaded in (quiet, loud))
    assert one != three
    assert before == CELLS
    with pytest.raises(RunError, match='a cell of its own, "mine"'):
        weft.load(run.folder)


def test_import_executes_the_file_and_takes_the_class_by_name(file: Path) -> None:
    cells = import_classes([f"{file}:Traces", f"slow={file}:Traces"])
    assert list(cells) == ["Traces", "slow"]
    assert cells["Traces"] is cells["slow"]
    assert cells["slow"](3, 4, leak=0.5).leak == 0.5
    assert cells["slow"].__module__ in sys.modules


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("traces.py", r'--import "traces\.py": is not a class to import \(write FILE\.py:CLASS\)'),
        ("nowhere.py:Traces", r"--import nowhere\.py: no such file"),
        ("{file}:Trace", r'has no cell, task or settings of a model named "Trace" \(did you mean "Traces"\?\)'),
        ("{file}:Note", r'named "Note" \(choose from Other, Traces\)'),
        ("{text}:Traces", r"is not a Python file \(its name must end in \.py\)"),
        ("{broken}:Traces", r"broken\.py:2: cannot be run: ZeroDivisionError: division by zero"),
        ("{typo}:Traces", r"typo\.py: cannot be run: SyntaxError"),
        ("{empty}:Traces", r'named "Traces" \(it must be a subclass of weft\.nn\.Cell, weft\.tasks\.Task or'),
    ],
)
def test_a_wrong_import_is_named(word: str, message: str, file: Path, tmp_path: Path) -> None:
    others = {"text": "notes.txt", "broken": "broken.py", "typo": "typo.py", "empty": "empty.py"}
    sources = {"text": "x", "broken": "x = 0\nx = 1 / x\n", "typo": "class\n", "empty": "from weft.nn import RNN\n"}
    for name, source in sources.items():
        (tmp_path / others[name]).write_text(source, encoding="utf-8")
    places = {name: str(tmp_path / place) for name, place in others.items()}
    with pytest.raises(ConfigError, match=message):
        import_classes([word.format(file=file, **places)])


def test_two_cells_of_one_name_are_refused(file: Path) -> None:
    with pytest.raises(ConfigError, match=r'gives a second cell the name "Traces" \(use NAME=…\)'):
        import_classes([f"{file}:Traces", f"{file}:Traces"])
