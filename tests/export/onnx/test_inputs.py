"""Inputs of the runner: many of very different lengths take the memory of a few, and blank texts have no answer."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.export.onnx.built import WORDS, assert_like, build_run, exported
from tests.export.onnx.test_answers import RNN, TRANSFORMER, WORD, tree

from weft.export.onnx import Runner
from weft.export.onnx.runner import answering, texts
from weft.export.onnx.runner.graphs import Graphs

BUDGET = 160
BUILT: dict[str, dict[str, Any]] = {
    "translate": {**tree(TRANSFORMER, TRANSFORMER), "decode": {"max_length": 6}},
    "lm": {"model": RNN, "text": WORD, "decode": {"max_length": 6}},
    "classify": {"model": RNN, "text": WORD},
    "regress": {"model": RNN, "text": WORD},
    "tag": {"model": {**RNN, "characters": 4}, "text": WORD},
    "mask": {"model": RNN, "text": WORD},
    "embed": {"model": {"kind": "skipgram", "embedding": 8}},
}


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The positions that each call of a graph reads, padding included; the budget is small."""
    found = list[int]()
    run = Graphs.run

    def counted(self: Graphs, name: str, inputs: Any) -> Any:
        for key in ("tokens", "words", "letters"):
            if key in inputs:
                found.append(inputs[key].size)
        return run(self, name, inputs)

    monkeypatch.setattr(Graphs, "run", counted)
    monkeypatch.setattr(answering, "MAX_POSITIONS", BUDGET)
    monkeypatch.setattr(texts, "MAX_SEARCH_POSITIONS", 4 * BUDGET)
    return found


def of_many_lengths() -> list[str]:
    draw = random.Random(0)
    return [" ".join(draw.choices(WORDS, k=30 if number % 9 == 4 else 1 + number % 5)) for number in range(60)]


@pytest.mark.parametrize("task", ["translate", "lm", "classify", "tag"])
def test_inputs_are_read_in_batches_by_length_under_a_budget(task: str, sizes: list[int], tmp_path: Path) -> None:
    run = build_run(task, tmp_path, **BUILT[task])
    runner, inputs = exported(run, tmp_path / "out"), of_many_lengths()
    inputs[7] = "sees " + "c" * 90  # a word of many letters, beside which others must not be padded
    together = runner.predict(inputs)
    assert 0 < max(sizes) <= BUDGET * (4 if task == "lm" else 1)  # which reads a prompt for each hypothesis
    for number in (0, 4, 7, 13, 59):
        assert_like(runner.predict(inputs[number]), together[number], tolerance=1e-5)


def test_the_encoded_source_is_not_copied_for_each_token(tmp_path: Path) -> None:
    run = build_run("translate", tmp_path, **BUILT["translate"])
    answering: Any = exported(run, tmp_path / "out")._answering
    given = [answering.given(text, {"language": None, "prefix": ""}, answering.defaults) for text in ("the cat", "a")]
    rows = answering._rows(given, 3)
    source = [name for name in rows.state if name.endswith("_source_keys")]
    before = {name: rows.state[name] for name in source}
    rows.select(np.array([2, 0, 0, 3, 5, 4]))
    assert source
    assert all(rows.state[name] is before[name] for name in source)
    rows.select(np.array([4, 3, 3]))
    assert all(np.array_equal(rows.state[name], before[name][3:]) for name in source)


def test_a_step_transposes_no_keys_or_values_of_the_source(tmp_path: Path) -> None:
    import onnx

    run = build_run("translate", tmp_path, **BUILT["translate"])
    runner: Any = exported(run, tmp_path / "out")
    sources = {field.name for field in runner._answering.graphs.fields if field.shared}
    graph = onnx.load(str(tmp_path / "out" / "step.onnx"), load_external_data=False).graph
    assert sources <= {one for node in graph.node for one in node.input}
    assert not sources & {one for node in graph.node if node.op_type == "Transpose" for one in node.input}


@pytest.mark.parametrize("task", BUILT)
def test_blank_texts_have_no_answer(task: str, tmp_path: Path) -> None:
    """As in `weft predict --json`; a language model continues them."""
    run = build_run(task, tmp_path, **BUILT[task])
    runner = exported(run, tmp_path / "out")
    blank = ["", " ", "\u00a0\t", "\r\n"]
    found = runner.predict([*blank[:2], "the cat", *blank[2:]])
    if task == "lm":
        assert all(found)
        assert_like(run.predict("").record(), runner.predict(""))
        return
    assert found[:2] + found[3:] == [None] * 4
    assert_like(runner.predict("the cat"), found[2])
    assert [runner.predict(text) for text in blank] == [None] * 4
    assert runner.predict({"words" if task == "tag" else "source" if task == "translate" else "text": " "}) is None


def test_blank_texts_of_translators_are_left_out_of_options_for_each(tmp_path: Path) -> None:
    runner = exported(build_run("translate", tmp_path, **BUILT["translate"]), tmp_path / "out")
    found = runner.predict(["a cat", "", "the dog"], prefix=["some", "old", "near"])
    assert found[1] is None
    assert [one["text"].split()[0] for one in (found[0], found[2])] == ["some", "near"]
    assert "".join(runner.stream(" ")) == ""


@pytest.mark.parametrize("task", ["translate", "lm", "classify", "tag"])
def test_a_line_end_is_a_part_of_a_text(task: str, tmp_path: Path) -> None:
    run = build_run(task, tmp_path, **{**BUILT[task], **({} if task == "tag" else {"text": {"kind": "char"}})})
    runner: Runner = exported(run, tmp_path / "out")
    for text in ("the cat\r", "the cat\n", "the\ncat"):
        assert_like(run.predict(text).record(), runner.predict(text))
