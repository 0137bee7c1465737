"""weft bench, with small sizes; no test depends on the figures."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest

TINY = ["--size", "2,3,4", "--repeats", "1"]

SIZES = {"layers": 1, "width": 8, "heads": 2, "feedforward": 8, "words": 300, "rows": 2, "length": 4}
TINY_TRANSLATOR = ["--device", "cpu", "--repeats", "1", "--updates", "1"]
TINY_TRANSLATOR += [word for name, size in SIZES.items() for word in (f"--{name}", str(size))]

needs_transformers = pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None, reason="the package transformers is not installed"
)

OWN_CELL = """
import torch
from torch import nn
from weft.nn import Cell


class Leaky(Cell):
    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size)
        self.from_input = nn.Linear(input_size, hidden_size)

    def step(self, x, h):
        h = 0.9 * h + torch.tanh(self.from_input(x))
        return h, h
"""


def rows_of(table):
    """The words of each line below the rule."""
    lines = [line.split() for line in table.splitlines()]
    rule = next(number for number, words in enumerate(lines) if words and set(words[0]) == {"─"})
    return [words for words in lines[rule + 1 :] if len(words) > 8 and "2,3,4" in words]


def test_bench_without_a_command_lists_the_commands(weft):
    outcome = weft("bench")
    assert outcome.code == 0
    assert "recurrence" in outcome.out
    assert "training" in outcome.out


@pytest.mark.parametrize("what", ["recurrence", "training"])
def test_the_command_explains_itself_with_an_example(weft, what):
    outcome = weft("bench", what, "--help")
    assert outcome.code == 0
    assert re.search(rf"Examples:\s+weft bench {what}", outcome.out)


@pytest.mark.parametrize(
    "cells",
    [
        pytest.param([], id="default", marks=pytest.mark.slow),  # which starts a process for every figure
        pytest.param(["gru"], id="gru"),
    ],
)
def test_a_row_for_each_cell_and_a_dash_where_torch_has_none(weft, cells):
    outcome = weft("bench", "recurrence", *TINY, *(word for cell in cells for word in ("--cell", cell)))
    assert outcome.code == 0, outcome.err
    for heading in ("B,T,H", "weft ms", "backend", "torch.nn ms", "eager ms", "limit ms", "share", "first call s"):
        assert heading in outcome.out
    assert "MiB" not in outcome.out
    rows = {row[0]: row for row in rows_of(outcome.out)}
    assert list(rows) == (cells or ["lstm", "gru_reset_after", "elman", "gru", "peephole_lstm"])
    missing = {name for name, row in rows.items() if row[5:7] == ["-", "-"]}
    assert missing == rows.keys() & {"gru", "peephole_lstm"}


def test_json_has_the_figures_the_machine_and_the_settings(weft):
    outcome = weft("bench", "recurrence", *TINY, "--cell", "lstm", "--cell", "mut1", "--lengths", "--json")
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out)
    assert found["machine"]["threads"] == 1
    assert found["settings"] == {
        "lengths": True,
        "bidirectional": False,
        "autocast": False,
        "repeats": 1,
    }
    lstm, mut1 = found["rows"]
    assert (lstm["cell"], lstm["size"], mut1["cell"]) == ("lstm", [2, 3, 4], "mut1")
    assert lstm["dtype"] == "float32"
    assert lstm["torch_ratio"] == pytest.approx(lstm["torch_ms"] / lstm["weft_ms"])
    assert lstm["limit_share"] == pytest.approx(lstm["limit_ms"] / lstm["weft_ms"])
    assert lstm["first_seconds"] > 0
    assert mut1["torch_ms"] is None
    assert "MUT1" in mut1["missing"]["torch"]


def test_an_imported_cell_with_its_memory(weft):
    Path("leaky.py").write_text(OWN_CELL, encoding="utf-8")
    outcome = weft("bench", "recurrence", *TINY, "--cell", "Leaky", "--import", "leaky.py:Leaky", "--memory")
    assert outcome.code == 0, outcome.err
    assert "weft MiB" in outcome.out
    (row,) = rows_of(outcome.out)
    assert row[0] == "Leaky"


def test_a_row_for_each_type(weft):
    outcome = weft("bench", "recurrence", *TINY, "--cell", "elman", "--dtype", "auto", "--dtype", "bf16")
    assert outcome.code == 0, outcome.err
    assert [row[2] for row in rows_of(outcome.out)] == ["float32", "bf16"]


def test_only_the_contenders_that_are_asked_for(weft):
    outcome = weft("bench", "recurrence", *TINY, "--cell", "elman", "--contender", "torch", "--contender", "graph")
    assert outcome.code == 0, outcome.err
    assert "torch.nn ms" in outcome.out
    assert "eager ms" not in outcome.out
    assert "graph" not in outcome.out + outcome.err
    (row,) = rows_of(outcome.out)
    assert row[7:9] == ["-", "-"]
    outcome = weft("bench", "recurrence", "--long", *TINY, "--contender", "weft loop")
    assert "weft loop ms" in outcome.out
    assert "scan" not in outcome.out + outcome.err


def test_the_long_table(weft):
    outcome = weft("bench", "recurrence", "--long", *TINY)
    assert outcome.code == 0, outcome.err
    for heading in ("B,T,D", "weft loop ms", "weft scan ms", "torch scan ms", "limit ms", "weft / limit"):
        assert heading in outcome.out
    assert "without fla hgrn chunk: it needs a GPU with CUDA" in outcome.out + outcome.err
    (row,) = json.loads(weft("bench", "recurrence", "--long", *TINY, "--json").out)["rows"]
    assert (row["size"], row["dtype"], row["ms"].keys() >= {"weft", "limit"}) == ([2, 3, 4], "float32", True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--size", "32,64"], '--size: "32,64" is not three whole numbers'),
        (["--size", "32,0,8"], '--size: "32,0,8"'),
        (["--size", "a,b,c"], '--size: "a,b,c"'),
        (["--cell", "lsmt"], '--cell: "lsmt" is not a cell (did you mean "lstm"?)'),
        (["--dtype", "float16"], '--dtype: "float16" is not a choice'),
        (["--long", "--dtype", "float16"], '--dtype: "float16" is not a choice'),
        (["--long", "--cell", "gru"], "--cell: does nothing with --long"),
        (["--long", "--lengths"], "--lengths: does nothing with --long"),
        (["--contender", "torhc"], '--contender: "torhc" is no contender (did you mean "torch"?)'),
        (["--long", "--contender", "torch"], '--contender: "torch" is no contender'),
        (["--device", "abacus"], '--device: "abacus" is not a device'),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(weft, words, message):
    outcome = weft("bench", "recurrence", *words)
    assert outcome.code == 2
    assert message in outcome.err
    assert len(outcome.err.splitlines()) == 1
    assert outcome.out == ""


@needs_transformers
def test_a_translator_has_a_row_for_each_contender(weft):
    outcome = weft("bench", "training", *TINY_TRANSLATOR)
    assert outcome.code == 0, outcome.err
    for heading in ("tokens/s", "ms/update", "ratio", "padding", "first update s"):
        assert heading in outcome.out
    assert "peak MiB" not in outcome.out
    assert "2×4 tokens without padding" in outcome.out
    rows = [line.split() for line in outcome.out.splitlines() if "%" in line]
    assert [row[0] for row in rows] == ["weft", "huggingface"]
    assert [row[3].endswith("×") for row in rows] == [False, True]


@needs_transformers
def test_real_pairs_as_a_markdown_table(weft, pairs):
    words = [*TINY_TRANSLATOR, "--length", "8", "--words", "900"]
    outcome = weft("bench", "training", *words, "--data", pairs, "--markdown")
    assert outcome.code == 0, outcome.err
    rows = [line for line in outcome.out.splitlines() if line.startswith("|")]
    assert [row.split()[1] for row in rows[2:]] == ["weft", "huggingface"]
    assert "words; both models have all 900" in outcome.out


def test_weft_alone_as_json(weft):
    outcome = weft("bench", "training", *TINY_TRANSLATOR, "--contender", "weft", "--json")
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out)
    assert found["settings"]["contenders"] == ["weft"]
    assert found["settings"]["compile"] is False
    assert found["machine"]["transformers"] is None
    (row,) = found["rows"]
    assert (row["contender"], row["tokens_per_update"], row["padding"], row["peak_bytes"]) == ("weft", 8, 0, None)
    assert row["tokens_per_second"] == pytest.approx(8 / (row["update_ms"] / 1000))


def test_without_transformers_one_line_says_what_to_install(weft, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        "weft.bench.training.case.find_spec", lambda name: None if name == "transformers" else found(name)
    )
    outcome = weft("bench", "training", *TINY_TRANSLATOR)
    assert outcome.code == 2
    assert "transformers is not installed (pip install 'transformers>=5.0', or" in outcome.err
    assert len(outcome.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--width", "10"], "--width: 10 cannot be shared out to 2 heads of even size (use a multiple of 4)"),
        (["--length", "1"], "--length: 1 is too small (use at least 2)"),
        (["--layers", "0"], "--layers: 0 is too small (use at least 1)"),
        (["--words", "5"], "--words: 5 is too small (use at least 6)"),
        (["--contender", "hugginface"], '--contender: "hugginface" is not a contender (did you mean "huggingface"?)'),
        (["--device", "abacus"], '--device: "abacus" is not a device'),
        (["--data", "missing.tsv"], "missing.tsv: no such file"),
        (["--data", "pairs.tsv", "--words", "100"], "--words: 100 leaves no room"),
    ],
)
def test_a_mistake_about_training_is_one_line_and_exit_code_2(weft, words, message, pairs):
    outcome = weft("bench", "training", *TINY_TRANSLATOR, "--contender", "weft", *words)
    assert outcome.code == 2
    assert message in outcome.err
    assert len(outcome.err.splitlines()) == 1
    assert outcome.out == ""


def test_scheduled_sampling_is_timed_beside_the_truth_alone(weft, monkeypatch):
    sizes = {"rows": 2, "length": 5, "words": 50, "width": 8, "layers": 1}
    monkeypatch.setattr("weft.bench.sampling.SIZES", {"cpu": sizes})
    words = ["bench", "loop", "--teacher-forcing", "0.5", "--device", "cpu", "--repeats", "1", "--threads", "1"]
    outcome = weft(*words)
    assert outcome.code == 0, outcome.err
    for text in ("truth tokens/s", "python tokens/s", "probability 0.5", "lm", "first", "after", "attention"):
        assert text in outcome.out
    found = json.loads(weft(*words, "--json").out)
    assert [row["model"] for row in found["rows"]] == ["lm", "first", "after", "attention"]
    assert all(row["python_ms"] > 0 and "graphs_ms" not in row for row in found["rows"])
