"""The command weft export; the content of its folders is tested in tests/export."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest

import weft as package

needs_ctranslate2 = pytest.mark.skipif(
    importlib.util.find_spec("ctranslate2") is None, reason="the package ctranslate2 is not installed"
)

SIDE = {"kind": "transformer", "width": 8, "heads": 2, "layers": 1}


@pytest.fixture
def run(pairs, tmp_path):
    """The folder of a translator."""
    config = {"task": "translate", "data": {"train": pairs}, "model": {"encoder": SIDE, "decoder": SIDE}}
    package.train(config | {"train": {"steps": 3}}, out=tmp_path / "run", quiet=True)
    return "run"


def test_the_command_explains_itself_with_an_example(weft):
    for verb in ("export", "score"):
        outcome = weft(verb, "--help")
        assert outcome.code == 0
        assert re.search(rf"Examples:\s+weft {verb} runs/", outcome.out)


@needs_ctranslate2
def test_a_folder_is_written_and_the_comparison_printed(weft, run):
    outcome = weft("export", run, "--to", "ctranslate2", "--out", "fast", "--quantization", "int8")
    assert outcome.code == 0, outcome.err
    assert outcome.out == ""
    first, second, third = outcome.err.splitlines()
    assert first == "written: fast"
    assert second.startswith("compared with the run: numbers within")
    assert third.startswith("compared with the run, in int8: numbers within")
    assert {"model.bin", "README.md", "tokenizer.json"} <= {path.name for path in Path("fast").iterdir()}
    again = weft("export", run, "--to", "ctranslate2", "--out", "fast")
    assert (again.code, again.err) == (2, "error fast: is not empty (choose another --out)\n")


@needs_ctranslate2
def test_the_comparison_as_json(weft, run):
    outcome = weft("export", run, "--to", "ctranslate2", "--out", "fast", "--json")
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out)
    assert (found["folder"], found["left_out"]) == ("fast", [])
    assert found["exact"]["difference"] < 1e-4
    assert (found["exact"]["greedy"], found["exact"]["beam"]) == (1.0, 1.0)


def test_a_mistake_is_one_line_and_exit_code_2(weft, run):
    outcome = weft("export", run, "--to", "onnyx", "--out", "fast")
    assert outcome.code == 2
    assert outcome.err.startswith('error --to: "onnyx" is not a format')
    assert len(outcome.err.splitlines()) == 1
    assert not Path("fast").exists()
