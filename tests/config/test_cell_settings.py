"""`cell` in a configuration: a name, or a table of kind and options that the cell's own constructor defines."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from weft.catalog import CELLS, TASKS
from weft.config import difference, fill, merge, parse_overrides, read_config, template, to_toml, validate
from weft.errors import ConfigError
from weft.models import build_language_model
from weft.nn import Cell, options_of
from weft.tasks import Facts

FACTS = Facts(1000, 40_000)
LM = {"task": "lm", "data": {"train": "x"}}
PAIRS = {"task": "translate", "data": {"train": "x"}}


class Leaky(Cell):
    """h' = leak h + tanh(W x)"""

    def __init__(self, input_size: int, hidden_size: int, *, leak: float = 0.9) -> None:
        super().__init__(input_size, hidden_size)
        self.leak = leak
        self.from_input = nn.Linear(input_size, hidden_size)

    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = self.leak * h + torch.tanh(self.from_input(x))
        return h, h


def lm(cell, **rest):
    return {**LM, "model": {"cell": cell, **rest}}


def cell_of(config):
    return build_language_model(config.model, 11).decoder.rnn.layers[0].cells[0]


@pytest.mark.parametrize("name", CELLS)
def test_every_cell_is_a_name_and_a_table(name):
    config = validate(lm(name))
    assert config == validate(lm({"kind": name}))
    assert config.tree()["model"]["cell"]["kind"] == name
    assert type(cell_of(config)) is CELLS[name]


def test_options_reach_the_cell_on_both_sides_of_a_translator():
    encoder = {"cell": {"kind": "lstm", "forget_bias": 3}, "hidden": 4}
    decoder = {"cell": {"kind": "elman", "feedback": True}, "hidden": 4}
    config = validate({**PAIRS, "model": {"encoder": encoder, "decoder": decoder}})
    model = config.model.build(11, 11, shared=False)
    assert (model.encoder.rnn.layers[0].cells[1].from_input.bias[4:8] == 3).all()
    assert model.decoder.rnn.layers[0].cells[0].feedback


def test_a_filled_configuration_says_every_option_and_reads_back():
    filled = fill(lm({"kind": "peephole_lstm", "peepholes": "full"}), FACTS)
    table = {"kind": "peephole_lstm", "peepholes": "full", "forget_bias": 1.0, "bias": True}
    assert filled.tree()["model"]["cell"] == table
    assert tomllib.loads(to_toml(filled.tree()))["model"]["cell"] == table
    assert validate(json.loads(json.dumps(filled.tree()))) == filled
    assert fill(LM, FACTS).tree()["model"]["cell"] == {
        "kind": "lstm",
        "forget_bias": 1.0,
        "candidate": "tanh",
        "bias": True,
    }


@pytest.mark.parametrize(
    ("written", "words", "expected"),
    [
        (None, ["model.cell=gru"], {"kind": "gru", "update": "candidate"}),
        (None, ["model.cell.kind=lstm", "model.cell.forget_bias=0"], {"kind": "lstm", "forget_bias": 0.0}),
        (None, ["model.cell.forget_bias=0"], {"kind": "lstm", "forget_bias": 0.0}),
        ("gru", ["model.cell.update=state"], {"kind": "gru", "update": "state"}),
        ({"kind": "lstm", "forget_bias": 2.0}, ["model.cell.candidate=sigmoid"], {"kind": "lstm", "forget_bias": 2.0}),
        ({"kind": "lstm", "forget_bias": 2.0}, ["model.cell=mut1"], {"kind": "mut1"}),
        (None, ["model.cell=gru", "model.cell.update=state"], {"kind": "gru", "update": "state"}),
        (None, ['model.cell={kind="elman", feedback=true}'], {"kind": "elman", "feedback": True}),
    ],
)
def test_overrides_on_the_command_line(written, words, expected):
    tree = merge(LM if written is None else lm(written), parse_overrides(words))
    found = validate(tree).tree()["model"]["cell"]
    assert {name: found[name] for name in expected} == expected


def test_overrides_from_python_and_differences():
    one = validate(read_config(lm("gru"), {"model.cell.update": "state"}))
    assert one.tree()["model"]["cell"] == {"kind": "gru", "update": "state", "candidate": "tanh", "bias": True}
    assert difference(one, validate(lm("gru"))) == [("model.cell.update", "state", "candidate")]


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("gruu", r'model\.cell: "gruu" is not a cell \(did you mean "gru"\? a cell of your own comes by --import'),
        ("mine", r'model\.cell: "mine" is not a cell \(choose from .*mut3.*cells=\{"mine": CLASS\}\)'),
        ({"kind": "mgru"}, r'model\.cell\.kind: "mgru" is not a cell \(did you mean "gru"\?'),
        (3, r"model\.cell: 3 is neither a name nor a table"),
        (
            {"kind": "peephole_lstm", "peephols": "full"},
            r'model\.cell\.peephols: is not an option of peephole_lstm \(did you mean "peepholes"\?\)$',
        ),
        (
            {"kind": "peephole_lstm", "peepholes": "ful"},
            r'model\.cell\.peepholes = "ful": is not one of diagonal, full \(did you mean "full"\?\)$',
        ),
        ({"forget_bias": True}, r"model\.cell\.forget_bias = true: should be a valid number"),
        (
            {"kind": "projected_lstm", "projection": -1},
            r"model\.cell\.projection = -1: should be greater than or equal to 1",
        ),
    ],
)
def test_an_error_names_the_path_the_value_and_the_cure(cell, message):
    with pytest.raises(ConfigError, match=f"^{message}"):
        validate(lm(cell))
    for side in ("encoder", "decoder"):
        with pytest.raises(ConfigError, match="^" + message.replace(r"model\.", rf"model\.{side}\.")):
            validate({**PAIRS, "model": {side: {"cell": cell}}})


def test_own_cells_serve_the_reading_that_they_are_given_to_and_no_other():
    class Other(Leaky):
        pass

    tree = lm({"kind": "mine", "leak": 0.5}, hidden=4)
    before = dict(CELLS)
    first, second = validate(tree, cells={"mine": Leaky}), validate(tree, cells={"mine": Other})
    assert first.tree() == second.tree()
    assert first != second
    kinds = [type(cell_of(config)) for config in (first, second)]
    assert kinds == [Leaky, Other]
    assert fill(tree, FACTS, cells={"mine": Leaky}).model.cell.options == {"leak": 0.5}
    assert before == CELLS
    with pytest.raises(ConfigError, match='"mine" is not a cell'):
        validate(tree)
    with pytest.raises(ConfigError, match=r"^model\.cell\.leek: is not an option of mine \(did you mean \"leak\"\?\)"):
        validate(lm({"kind": "mine", "leek": 0.5}), cells={"mine": Leaky})


@pytest.mark.parametrize("task", [task for task in TASKS if task != "embed"])
def test_the_template_names_every_cell(task):
    [line, *_] = [line for line in template(task, kind="rnn").splitlines() if line.startswith("# cell =")]
    assert line.startswith('# cell = "lstm" ')
    assert all(name in line for name in CELLS)


def test_the_documentation_lists_every_cell_with_its_options():
    page = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
    rows = {line.split("`")[1]: line for line in page.splitlines() if line.startswith("| `")}
    for name, cell in CELLS.items():
        missing = [option for option in options_of(cell) if f"`{option}`" not in rows[name]]
        assert not missing, f"{name} has the options {missing}"
