"""The commands of weft from end to end: train, predict, evaluate, config, data, doctor."""

from __future__ import annotations

import io
import json
import sys
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest

from weft.tasks import TASKS
from weft.version import __version__

SMALL = ["train.steps=3", "model.hidden=8", "model.embedding=8"]


@pytest.fixture
def feed(monkeypatch):
    """Give the next command this standard input."""

    def feed(text):
        stream = io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8")
        monkeypatch.setattr(sys, "stdin", stream)

    return feed


def test_bare_weft_is_a_short_guide(weft):
    outcome = weft()
    assert outcome.code == 0
    assert "weft train translate pairs.tsv" in outcome.out
    assert all(f" {task} " in outcome.out for task in TASKS), "every task is named"
    assert len(outcome.out.splitlines()) <= 22, "a terminal has 24 lines"


def test_version(weft):
    assert weft("--version").out == f"weft {__version__}\n"


COMMANDS = [
    "studio",
    "new",
    "train",
    "evaluate",
    "predict",
    "compare",
    "sweep",
    "config check",
    "config fill",
    "config diff",
    "data make",
    "data show",
]


@pytest.mark.parametrize("command", [*COMMANDS, "doctor"])
def test_every_command_explains_itself_with_an_example(weft, command):
    outcome = weft(*command.split(), "--help")
    assert outcome.code == 0
    assert "Example" in outcome.out
    assert f"weft {command}" in outcome.out


@pytest.mark.parametrize("command", ["serve", "export", "push", "pull", "score"])
def test_paragraphs_of_help_fit_the_terminal(weft, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "100")
    lines = [line.strip() for line in weft(command, "--help").out.splitlines()]
    before = lines[: next(number for number, line in enumerate(lines) if line.startswith("Example"))]
    text = before[next(number for number, line in enumerate(before) if line.startswith("Usage")) + 1 :]
    for line, after in pairwise(text):
        word = after.partition(" ")[0]
        assert not line or not after or len(line) + 1 + len(word) > 97, "a line ends where no other word fits"


def test_usage_errors_have_exit_code_2(weft):
    assert weft("train").code == 2
    assert weft("trian").code == 2
    assert weft("train", "lm", "--no-such-option").code == 2


def test_train_predict_evaluate(weft, labelled, feed):
    trained = weft("train", "classify", labelled, *SMALL)
    assert trained.code == 0, trained.err
    assert trained.out == "", "standard output is for data"
    assert "runs/classify-1" in trained.err
    assert "Next: weft predict runs/classify-1" in trained.err

    feed("the red and the blue\n\nthe cow\n")
    answered = weft("predict", "runs/classify-1")
    lines = answered.out.split("\n")
    assert len(lines) == 4, "one line in, one line out, blank ones too"
    assert lines[1] == lines[3] == ""
    assert {lines[0], lines[2]} <= {"colour", "animal"}

    feed("the red\n")
    record = json.loads(weft("predict", "runs/classify-1", "--json").out)
    assert record["label"] in record["probabilities"]
    assert sum(record["probabilities"].values()) == pytest.approx(1)

    shown = weft("evaluate", "runs/classify-1", labelled)
    assert shown.code == 0, shown.err
    for word in ("accuracy", "f1", "precision", "recall", "confusion", "colour", "animal"):
        assert word in shown.out
    numbers = json.loads(weft("evaluate", "runs/classify-1", labelled, "--json").out)
    assert numbers["details"]["labels"] == ["animal", "colour"]
    assert sum(map(sum, numbers["details"]["confusion"])) == 200


def test_n_best_and_scores_of_a_translation(weft, pairs, tmp_path):
    sizes = [f"model.{side}.{size}=8" for side in ("encoder", "decoder") for size in ("hidden", "embedding")]
    assert weft("train", "translate", pairs, "train.steps=3", *sizes, "--out", "run", "-q").err == ""
    (tmp_path / "in.txt").write_text("one two\nthree\n", encoding="utf-8")
    records = [
        json.loads(line) for line in weft("predict", "run", "in.txt", "--json", "--n-best", "3").out.splitlines()
    ]
    assert [record["source"] for record in records] == ["one two", "three"]
    for record in records:
        scores = [record["score"], *(other["score"] for other in record["others"])]
        assert len(scores) == 3
        assert scores == sorted(scores, reverse=True)
    plain = weft("predict", "run", "in.txt", "--n-best", "2").out.splitlines()
    assert [line.count("\t") for line in plain] == [1, 1]
    shown = weft("evaluate", "run", pairs)
    assert "exact" in shown.out
    assert "nrefs:1|case:mixed" in shown.out.replace("\n", "")


def test_a_tagger_splits_punctuation_off(weft, tagged, feed):
    assert weft("train", "tag", tagged, *SMALL, "--out", "run", "-q").code == 0
    feed("the cat runs.\n")
    words = [token.rsplit("/", 1)[0] for token in weft("predict", "run").out.split()]
    assert words == ["the", "cat", "runs", "."]


def test_a_language_model_continues_a_prompt(weft, texts, feed):
    assert weft("train", "lm", texts, *SMALL, "--out", "run", "-q").code == 0
    feed("the cat\n")
    first = weft("predict", "run", "--seed", "1", "--max-length", "20").out
    assert first.startswith("the cat")
    feed("the cat\n")
    assert weft("predict", "run", "--seed", "1", "--max-length", "20").out == first


def test_new_check_fill_diff(weft, pairs):
    assert weft("new", "translate", "--out", "my.toml").code == 0
    assert "exists already" in weft("new", "translate", "--out", "my.toml").err
    assert weft("config", "check", "my.toml").code == 0
    filled = weft("config", "fill", "my.toml", f"data.train={pairs}", "model.encoder.hidden=77").out
    tree = tomllib.loads(filled)
    assert tree["model"]["encoder"]["hidden"] == 77
    assert tree["train"]["epochs"] > 0
    Path("other.toml").write_text(filled, encoding="utf-8")
    assert "model.encoder.hidden" in weft("config", "diff", "my.toml", "other.toml").out


def test_data_show_prints_how_a_file_is_read(weft, labelled):
    outcome = weft("data", "show", "classify", labelled, "--most", "2")
    assert outcome.code == 0, outcome.err
    assert "200 examples" in outcome.out
    assert f"1  {labelled}:2 · training\n" in outcome.out
    assert "   label      " in outcome.out
    assert "tokens" not in outcome.out
    one = weft("data", "show", "classify", labelled, "text.kind=word", "--row", "7")
    assert f"7  {labelled}:8 · " in one.out
    assert "5 tokens   the " in one.out
    assert weft("data", "show", "classify", labelled, "--row", "201").err == (
        f"error --row 201: {labelled} has 200 examples (choose from 1 to 200)\n"
    )


def test_a_header_with_other_names_is_one_line_and_the_command_that_trains_it(weft, labelled):
    Path("kaggle.csv").write_text(Path(labelled).read_text().replace("text\tlabel", "review\tsentiment", 1))
    refused = weft("train", "classify", "kaggle.csv", *SMALL, "-q")
    assert refused.code == 2
    assert refused.err.startswith('error kaggle.csv:1: looks like a header without "text" and "label"')
    assert len(refused.err.splitlines()) == 1
    words = refused.err.split("choose with: ")[1].split(";")[0].split()
    assert words == ["data.text=review", "data.label=sentiment"]
    assert "200 examples" in weft("data", "show", "classify", "kaggle.csv", *words).out


def test_doctor_lists_the_packages_and_devices(weft):
    found = json.loads(weft("doctor", "--json").out)
    assert found["weft"] == __version__
    assert "GFLOP/s" in found["processor"]


def test_a_fault_is_one_line_and_a_log(weft, monkeypatch):
    monkeypatch.setattr("weft.run.load", lambda *_, **__: 1 / 0)
    outcome = weft("predict", "run")
    assert outcome.code == 1
    assert "ZeroDivisionError" in outcome.err
    log = Path(outcome.err.split()[-1])
    assert "Traceback" in log.read_text()
    log.unlink()
