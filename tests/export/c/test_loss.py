"""The score that int8 in C is measured by is that of an evaluation by weft: so it is for a program in float32."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from tests.export.c.models import RNN_
from tests.export.c.trained import trained

import weft
from weft.errors import ConfigError
from weft.export import export_run
from weft.export.c import loss as c_loss
from weft.export.c.compare import compile_folder
from weft.export.c.export import sources_of, write_files
from weft.export.c.loss import measure_c
from weft.export.loss import Unmeasured, read_examples

pytestmark = pytest.mark.filterwarnings("ignore")

LARGE = {"kind": "rnn", "hidden": 24, "embedding": 40}
PAIR = {"encoder": {"hidden": 24, "embedding": 40}, "decoder": {"hidden": 24, "embedding": 40}}
SAME = {"classify": "accuracy", "regress": "rmse", "tag": "accuracy", "translate": "bleu"}
"""The metric of weft that is measured."""


def made(task: str, folder: Path, **more: Any) -> weft.Run:
    model = PAIR if task == "translate" else {"decoder": LARGE | {"kind": "rnn"}} if task == "caption" else LARGE
    if task == "caption":
        model = {"encoder": {"kind": "conv", "channels": [4]}, "decoder": RNN_}
    return trained(task, folder, model, **more)


def measured(run: weft.Run, folder: Path, data: str | None) -> tuple[str, float, int]:
    folder.mkdir()
    write_files(sources_of(run), folder)
    examples = read_examples(run, data)
    found = measure_c(run, compile_folder(folder), examples, folder)
    assert found is not None
    return found


@pytest.mark.parametrize("task", SAME)
def test_a_program_has_the_score_of_its_run(task: str, tmp_path: Path) -> None:
    run = made(task, tmp_path)
    data = run.config.data.train
    name, value, count = measured(run, tmp_path / "c", data)
    assert (name, count) == (SAME[task], len(read_examples(run, data)))
    own = run.evaluate(data).metrics[name]
    assert value == pytest.approx(own, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("task", ["classify", "tag"])
def test_feature_vectors_are_lines_of_numbers(task: str, tmp_path: Path) -> None:
    run = made(task, tmp_path, features=True)
    name, value, _ = measured(run, tmp_path / "c", run.config.data.train)
    assert value == pytest.approx(run.evaluate(run.config.data.train).metrics[name], rel=1e-4)


def test_a_picture_is_written_for_the_program(tmp_path: Path) -> None:
    run = made("caption", tmp_path)
    name, value, count = measured(run, tmp_path / "c", run.config.data.train)
    assert (name, count > 0) == ("bleu", True)
    assert value == pytest.approx(run.evaluate(run.config.data.train).metrics["bleu"], abs=1e-3)


def test_a_forecast_is_measured_in_the_scale_of_its_series(tmp_path: Path) -> None:
    run = made("forecast", tmp_path)
    name, value, _ = measured(run, tmp_path / "c", None)
    assert name == "mae / scale"
    windows: Any = read_examples(run, None)
    total, count = 0.0, 0
    for window in windows:
        (answer,) = run.predict([window.window(0, run.task.history)])  # type: ignore[attr-defined]
        gold = window.target[run.task.history :]  # type: ignore[attr-defined]
        scale = run.task.scaling(window).scale  # type: ignore[attr-defined]
        errors = [abs(a - b) / scale for a, b in zip(answer.values, gold, strict=True) if not math.isnan(b)]
        total, count = total + sum(errors), count + len(errors)
    assert value == pytest.approx(total / count, rel=1e-3)


def test_a_language_model_is_asked_for_the_next_token(tmp_path: Path) -> None:
    run = made("lm", tmp_path)
    name, value, count = measured(run, tmp_path / "c", run.config.data.train)
    assert name == "accuracy of the next token"
    asked = c_loss._next_tokens(run, read_examples(run, run.config.data.train))
    answers = run.predict([begin for begin, _ in asked], beam=1, max_length=1)
    right = [str(answer) == longer for answer, (_, longer) in zip(answers, asked, strict=True)]
    assert (count, value) == (len(asked), pytest.approx(sum(right) / len(right)))


def test_a_masked_model_is_asked_for_one_word_of_each_text(tmp_path: Path) -> None:
    name, value, count = measured(run := made("mask", tmp_path), tmp_path / "c", run_data(run))
    assert name == "accuracy"
    assert 0 <= value <= 1
    assert count


def run_data(run: weft.Run) -> str:
    return str(run.config.data.train)


def test_the_loss_is_printed_and_written(weft: Any, tmp_path: Path) -> None:
    run = made("tag", tmp_path)
    command = ["export", str(run.folder), "--to", "c", "--quantization", "int8"]
    outcome = weft(*command, "--data", run_data(run), "--out", str(tmp_path / "c"))
    assert outcome.code == 0, outcome.err
    line = next(line for line in outcome.err.splitlines() if line.startswith("measured: accuracy "))
    assert " before and " in line
    assert line.removeprefix("measured: ") in " ".join((tmp_path / "c" / "README.md").read_text().split())
    outcome = weft(*command, "--data", run_data(run), "--out", str(tmp_path / "d"), "--json")
    assert json.loads(outcome.out)["loss"] == line.removeprefix("measured: ")


@pytest.mark.parametrize("task", ["tag", "lm", "classify"])
def test_what_was_set_aside_is_the_default(task: str, tmp_path: Path) -> None:
    run = made(task, tmp_path)
    assert len(read_examples(run, None)) == run.report["data"]["valid"]["examples"]
    file = Path(run_data(run))
    file.write_text(file.read_text() + "\n")
    with pytest.raises(Unmeasured, match="has changed since a part of it was set aside"):
        read_examples(run, None)
    file.unlink()
    with pytest.raises(Unmeasured, match="is not here"):
        read_examples(run, None)


def test_what_was_set_aside_has_the_score_of_the_report(weft: Any, tmp_path: Path) -> None:
    run = made("tag", tmp_path)
    examples, data = read_examples(run, None), tmp_path / "held.txt"
    rows = [zip(one.words, one.tags, strict=True) for one in examples]
    data.write_text("\n".join("".join(f"{word} {tag}\n" for word, tag in row) for row in rows))
    name, value, _ = measured(run, tmp_path / "c", None)
    assert value == pytest.approx(run.evaluate(str(data)).metrics[name])
    Path(run_data(run)).unlink()
    outcome = weft("export", str(run.folder), "--to", "c", "--quantization", "int8", "--out", str(tmp_path / "d"))
    assert "what int8 costs in score was not measured: the run has no data.valid, and data.train =" in outcome.err
    assert "is not here; give examples by --data FILE" in outcome.err


def test_data_without_int8_is_refused(tmp_path: Path) -> None:
    run = made("classify", tmp_path)
    with pytest.raises(ConfigError, match="add --quantization int8"):
        export_run(run, to="c", out=tmp_path / "c", data=run_data(run))


def test_words_are_given_to_the_program_as_they_are(tmp_path: Path) -> None:
    """Split as a line is, "M." would be two words that nobody tagged, and "x y" too."""
    run = made("tag", tmp_path)
    words, data = (
        ["Dr.", "M.", "x y", "a/b", "1\u00a0000", '"', "don't", "the", "cat", "sleeps", "."],
        tmp_path / "gold.conll",
    )
    rows = [[words[(start + step) % len(words)] for step in range(1 + start % 7)] for start in range(3 * len(words))]
    tags = [answer.tags for answer in run.predict(rows)]  # type: ignore[attr-defined]
    right = [[tag if place % 3 else "O" for place, tag in enumerate(row)] for row in tags]
    lines = [
        "".join(f"{word}\t{tag}\n" for word, tag in zip(*one, strict=True)) for one in zip(rows, right, strict=True)
    ]
    data.write_text("\n".join(lines))
    name, value, count = measured(run, tmp_path / "c", str(data))
    assert (name, count) == ("accuracy", len(rows))
    assert value == pytest.approx(run.evaluate(str(data)).metrics["accuracy"], abs=1e-9)
    assert value < 1
