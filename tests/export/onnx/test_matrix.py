"""Each recurrent cell in each task: the folder answers 50 inputs of different lengths as the run does, by greedy and by
beam search, streams the text that it gives as a whole, and reads a text in pieces as it reads it at once.

The fast suite has each cell in one task, and each task with several cells; the whole table is slow. Other kinds of
networks are in test_answers.py.
"""

from __future__ import annotations

from itertools import cycle
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import torch
from tests.export.conftest import in_float64
from tests.export.onnx.built import assert_like, build_run, exported
from torch import Tensor, nn

from weft.catalog import CELLS, TASKS
from weft.export.onnx import Runner
from weft.export.onnx.runner.rows import Rows
from weft.export.onnx.samples import sample_inputs, sample_pairs
from weft.nn import Cell
from weft.run import Run

INPUTS: Final = 50
PIECE: Final = 3
WORD: Final = {"kind": "word"}


class Mine(Cell):
    """A cell of a user's own."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.gate, self.value = nn.Linear(input_size, hidden_size), nn.Linear(input_size + hidden_size, hidden_size)

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        gate = torch.sigmoid(self.gate(x))
        state = (1 - gate) * state + gate * torch.tanh(self.value(torch.cat([x, state], dim=-1)))
        return torch.relu(state) - 0.1 * state, state


class Counting(Cell):
    """A cell of a user's own with two states, of which one begins at one."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.inner = nn.Linear(input_size, hidden_size)

    def step(self, x: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        total, last = state
        now = self.inner(x)
        return torch.tanh(now + last * 0.5) + total, (total * 0.9 + now, torch.softmax(now, -1))

    def zero_state(self, batch: int, like: Tensor) -> tuple[Tensor, Tensor]:
        zero = like.new_zeros(batch, self.hidden_size)
        return zero, zero + 1


OWN: Final = {"mine": Mine, "counting": Counting}
CHOICES: Final[tuple[Any, ...]] = (
    *CELLS,
    *OWN,
    {"kind": "elman", "feedback": True},
    {"kind": "peephole_lstm", "peepholes": "full"},
    {"kind": "qrnn", "window": 3},
    {"kind": "s_lstm", "heads": 2},
    {"kind": "s_lstm", "forget": "exponential"},
    {"kind": "min_gru", "candidate": "positive"},
    {"kind": "min_lstm", "normalise": False},
    {"kind": "sru", "state_in_gates": False},
    {"kind": "hgrn", "lower_bound": 0.3},
    {"kind": "ind_rnn", "activation": "tanh"},
)
"""Every cell of the catalog, two of a user's own, and options that make another graph."""


def sections_of(form: str, cell: Any) -> dict[str, Any]:
    """The settings of a model of each form with such cells."""
    rnn = {"kind": "rnn", "embedding": 6, "hidden": 8, "cell": cell}
    translator = {"encoder": {**rnn, "bidirectional": True}, "decoder": rnn}
    inside = {"encoder": rnn, "decoder": {**rnn, "context": "attention"}}
    return {
        "classify": {"model": {**rnn, "bidirectional": True, "layers": 2, "pooling": "attention"}, "text": WORD},
        "regress": {"model": {**rnn, "pooling": "last"}, "text": WORD},
        "tag": {"model": {**rnn, "characters": 4, "crf": True}, "text": WORD},
        "mask": {"model": rnn, "text": {"kind": "bpe", "size": 300}},
        "lm": {"model": {**rnn, "layers": 2}, "text": WORD},
        "translate": {"model": translator, "text": WORD},
        "translate inside": {"model": inside, "text": WORD},
        "translate prefix": {"model": {"kind": "prefix", "decoder": rnn}, "text": {**WORD, "shared": True}},
        "caption": {"model": {"encoder": {"kind": "linear", "width": 8}, "decoder": rnn}, "text": WORD},
        "forecast direct": {"model": {**rnn, "embedding": 5, "multistep": "direct"}},
        "forecast recursive": {"model": {**rnn, "embedding": 5, "multistep": "recursive"}},
    }[form]


FORMS: Final = (
    "translate",
    "lm",
    "classify",
    "tag",
    "caption",
    "forecast recursive",
    "regress",
    "translate inside",
    "mask",
    "translate prefix",
    "forecast direct",
)
WRITERS: Final = ("translate", "lm", "caption")


def title(choice: Any) -> str:
    return choice if isinstance(choice, str) else " ".join(map(str, choice.values()))


EVERY: Final = [pytest.param(form, choice, id=f"{form}-{title(choice)}") for choice in CHOICES for form in FORMS]
SOME: Final = [
    pytest.param(form, choice, id=f"{form}-{title(choice)}")
    for form, choice in zip(cycle(FORMS), CHOICES, strict=False)
]


def records(found: Any) -> Any:
    return [one.record() for one in found]


def assert_texts_like(run: Run, inputs: list[Any], ours: Any, theirs: Any, options: dict[str, Any]) -> None:
    """The same texts with the same numbers. Where rounding decided a tie the other way, the scores are the same, or
    those of the run in float64, and the run gives the tokens of the folder's texts the folder's probabilities."""
    ties, count, place = [], 0, str(options)
    for source, own, other in zip(inputs, ours, theirs, strict=True):
        each = [[record, *record["others"]] for record in (own, other)]
        tokens, others = ([one["tokens"] for one in side] for side in each)
        count += len(others)
        if tokens == others:
            assert_like(own, other, place=place)
            continue
        if not np.allclose(*([one["score"] for one in side] for side in each), rtol=1e-5):
            (wide,) = records(in_float64(run).predict([source], **options))
            assert_like(wide, other, place=place, tolerance=1e-5)
        ties += [(source, one) for one in each[1] if one["tokens"] not in tokens]
    assert len(ties) <= count / 2, "most texts are the same"
    for (_, record), scored in zip(ties, run.score([(source, one["text"]) for source, one in ties]), strict=True):
        written = record["log_probabilities"]
        np.testing.assert_allclose(scored.log_probabilities[: len(written)], written, atol=1e-4, err_msg=place)


def check(form: str, cell: Any, folder: Path) -> None:
    task = form.split()[0]
    run = build_run(task, folder, cells=OWN, **sections_of(form, cell))
    runner, inputs = exported(run, folder / "out"), sample_inputs(run, INPUTS)
    if task not in WRITERS:
        assert_like(records(run.predict(inputs)), runner.predict(inputs))
        return
    for options in ({"beam": 1}, {"beam": 3, "n_best": 2}):
        given = {**options, "max_length": 7, "forbid_unknown": True}  # that token is no word of a text that is scored
        wanted = records(run.predict(inputs, **given))
        assert_texts_like(run, inputs, wanted, runner.predict(inputs, **given), given)
        for number in range(0, INPUTS, 25):
            alone = {"beam": options["beam"], "max_length": 7}
            (whole,) = runner.predict([inputs[number]], **alone)
            assert "".join(runner.stream(inputs[number], **alone)) == whole["text"]
    pairs = sample_pairs(run, inputs[:9])
    assert_like(records(run.score(pairs)), runner.score(pairs))
    if task == "lm":
        check_pieces(runner, len(run.task.codec.side("")))


def check_pieces(runner: Runner, entries: int) -> None:
    """A text read in pieces, and token by token, has the numbers of one pass: the state is carried."""
    tokens = np.random.default_rng(0).integers(0, entries, (4, 3 * PIECE))
    graphs = runner._answering.graphs
    wanted = Rows.start(graphs, len(tokens)).read(tokens)
    rows = Rows.start(graphs, len(tokens))
    first = rows.read(tokens[:, :PIECE])
    second = [rows.step(tokens[:, place]).logits for place in range(PIECE, 2 * PIECE)]
    third = rows.read(tokens[:, 2 * PIECE :])
    found = np.concatenate([first, np.stack(second, axis=1), third], axis=1)
    np.testing.assert_allclose(found, wanted, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(("form", "cell"), SOME)
def test_a_cell_in_a_task(form: str, cell: Any, tmp_path: Path) -> None:
    check(form, cell, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("form", "cell"), EVERY)
def test_every_cell_in_every_task(form: str, cell: Any, tmp_path: Path) -> None:
    check(form, cell, tmp_path)


def test_the_table_has_every_cell_and_every_task_with_recurrent_networks() -> None:
    named = {choice if isinstance(choice, str) else choice["kind"] for choice in CHOICES}
    assert named == {*CELLS, *OWN}
    assert {form.split()[0] for form in FORMS} == set(TASKS) - {"embed"}
    assert {param.values[0] for param in SOME} == set(FORMS)
