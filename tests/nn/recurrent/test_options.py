"""Cells chosen by a table of kind and options; the constructor's signature is the only list of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from weft.errors import ConfigError
from weft.nn import CELLS, RNN, Cell, choose_cell, options_of
from weft.nn.recurrent import LSTM, Elman, PeepholeLSTM, ProjectedLSTM, UnknownCell, build_cell

if TYPE_CHECKING:
    from fractions import Fraction


class Leaky(Cell):
    """h' = leak h + W x"""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        leak: float = 0.9,
        *,
        map: Literal["dense", "none"],
        squash: Any = torch.tanh,
        later: Fraction | None = None,
        **rest: Any,
    ) -> None:
        super().__init__(input_size, hidden_size)
        self.leak, self.map, self.squash = leak, map, squash
        self.from_input = nn.Linear(input_size, hidden_size)

    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = self.leak * h + self.from_input(x)
        return h, h


def test_a_table_builds_the_cell_with_its_options() -> None:
    cell = build_cell({"kind": "peephole_lstm", "peepholes": "full", "forget_bias": 3}, 2, 4)
    assert isinstance(cell, PeepholeLSTM)
    assert isinstance(cell.gates_from_memory, nn.Linear)
    assert_close(cell.from_input.bias[4:8], torch.full((4,), 3.0))
    rnn = RNN({"kind": "elman", "activation": "relu"}, 3, 4, layers=2, bidirectional=True)
    assert [cell.activation for layer in rnn.layers for cell in layer.cells] == ["relu"] * 4


@pytest.mark.parametrize("name", CELLS)
def test_a_chosen_cell_says_everything_and_reads_back(name: str) -> None:
    chosen = choose_cell(name)
    assert chosen.tree().keys() <= {"kind", *options_of(CELLS[name])}
    assert choose_cell(chosen.tree()) == chosen
    assert type(chosen(3, 4)) is CELLS[name]


def test_the_options_are_those_of_the_signature() -> None:
    assert list(options_of(Elman)) == ["activation", "feedback", "bias"]
    assert options_of(LSTM)["forget_bias"].default == 1.0
    assert choose_cell("lstm").options == {"forget_bias": 1.0, "candidate": "tanh", "bias": True}
    assert choose_cell("projected_lstm").options == {"forget_bias": 1.0, "bias": True}, "no size is known yet"
    assert choose_cell("mut1").options == {"bias": True}


def test_the_projection_is_half_of_the_hidden_size_and_at_least_one() -> None:
    assert [ProjectedLSTM(3, hidden).output_size for hidden in (1, 2, 7)] == [1, 1, 3]
    assert RNN({"kind": "projected_lstm", "projection": 5}, 3, 4, bidirectional=True).output_size == 10


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ("lstn", r'cell: "lstn" is not a cell \(did you mean "lstm"\?\)'),
        ({"kind": "mgru"}, r'cell\.kind: "mgru" is not a cell \(did you mean "gru"\?\)'),
        ({"kind": ["gru"]}, r"cell\.kind: .* is not a cell"),
        ({"peepholes": "full"}, r"cell\.kind: is missing \(choose from elman, lstm, "),
        (
            {"kind": "peephole_lstm", "peephols": "full"},
            r'cell\.peephols: is not an option of peephole_lstm \(did you mean "peepholes"\?\)',
        ),
        (
            {"kind": "gru", "peepholes": "full"},
            r"cell\.peepholes: is not an option of gru \(choose from bias, candidate, update\)",
        ),
        ({"kind": "mut1", "update": "state"}, r"cell\.update: is not an option of mut1 \(choose from bias\)"),
        (
            {"kind": "peephole_lstm", "peepholes": "ful"},
            r'cell\.peepholes = "ful": is not one of diagonal, full \(did you mean "full"\?\)',
        ),
        ({"kind": "lstm", "forget_bias": "1"}, r'cell\.forget_bias = "1": should be a valid number'),
        ({"kind": "elman", "feedback": 1}, r"cell\.feedback = 1: should be a valid boolean"),
        ({"kind": "projected_lstm", "projection": 0}, r"cell\.projection = 0: should be greater than or equal to 1"),
        ({"kind": "projected_lstm", "projection": 2.5}, r"cell\.projection = 2\.5: should be a valid integer"),
    ],
)
def test_a_wrong_choice_is_named(choice: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{message}"):
        RNN(choice, 3, 4)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Elman(2, 3, activation="tahn"), r'cell\.activation = "tahn": is not one of tanh, .*mean "tanh"'),
        (lambda: LSTM(2, 3, candidate="relu"), r'cell\.candidate = "relu": is not one of tanh, sigmoid'),
        (lambda: ProjectedLSTM(2, 3, projection=0), r"cell\.projection = 0: should be greater than or equal to 1"),
    ],
)
def test_a_constructor_checks_its_options_too(build: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{message}"):
        build()


def test_an_own_cell_has_the_options_of_its_own_signature() -> None:
    cells = {**CELLS, "leaky": Leaky}
    chosen = choose_cell({"kind": "leaky", "map": "dense"}, cells)
    assert chosen.tree() == {"kind": "leaky", "leak": 0.9, "map": "dense"}, "a function is no setting"
    assert chosen(2, 3).squash is torch.tanh
    with pytest.raises(ConfigError, match=r"cell\.map: is missing \(add it: map = …\)"):
        choose_cell("leaky", cells)
    with pytest.raises(ConfigError, match=r'cell\.map = "nune": is not one of dense, none'):
        choose_cell({"kind": "leaky", "map": "nune"}, cells)
    with pytest.raises(ConfigError, match=r"cell\.rest: is not an option of leaky"):
        choose_cell({"kind": "leaky", "map": "none", "rest": 1}, cells)
    with pytest.raises(UnknownCell):
        choose_cell("leaky")


@pytest.mark.parametrize("wrong", [3, Elman(2, 3)], ids=["number", "instance"])
def test_what_is_no_class_of_cells_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match=r'cell: "mine" is \w+, not a class of cells'):
        choose_cell("mine", {"mine": wrong})
