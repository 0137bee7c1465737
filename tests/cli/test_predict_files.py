"""weft predict on tables, on tagged sentences, and at a prompt."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path

import pytest

import weft as package

SMALL = {"embedding": 8, "hidden": 8}


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    rows = [
        (f"the {word} {number}", label) for number in range(9) for word, label in (("red", "colour"), ("cow", "animal"))
    ]
    config = {"task": "classify", "data": {"train": rows}, "model": SMALL, "train": {"steps": 2}}
    return str(package.train(config, out=tmp_path_factory.mktemp("runs") / "classify", quiet=True).folder)


def test_a_table_of_texts(weft, classifier):
    Path("new.csv").write_text('id,text\n1,"the red, and"\n2,\n3,the cow\n', encoding="utf-8")
    outcome = weft("predict", classifier, "new.csv", "--probabilities")
    assert outcome.code == 0, outcome.err
    rows = list(csv.DictReader(io.StringIO(outcome.out)))
    assert list(rows[0]) == ["id", "text", "label", "probability", "probability_animal", "probability_colour"]
    answers = package.load(classifier).predict(["the red, and", "the cow"])
    assert [row["label"] for row in rows] == [answers[0].label, "", answers[1].label]
    assert float(rows[2]["probability_animal"]) == pytest.approx(answers[1].probabilities["animal"], rel=1e-3)
    plain = weft("predict", classifier, "new.csv", "--format", "text")
    assert len(plain.out.splitlines()) == 4
    asked = weft("predict", classifier, "new.csv", "--column", "id", "--json").out.splitlines()
    assert [json.loads(line)["text"] for line in asked] == ["1", "2", "3"]


@pytest.mark.parametrize("json_lines", [False, True])
def test_a_plain_line_that_is_not_utf_8_can_be_skipped(weft, classifier, json_lines):
    Path("lines.txt").write_bytes(b"the red\nthe \xff cow\nthe cow\n")
    options = ["--json"] * json_lines
    whole = weft("predict", classifier, "lines.txt", *options)
    assert (whole.code, whole.out) == (2, "")
    outcome = weft("predict", classifier, "lines.txt", "--skip-bad-lines", *options)
    assert outcome.code == 2
    assert "error lines.txt:2: not UTF-8: byte 0xff" in outcome.err
    lines = outcome.out.split("\n")
    assert len(lines) == 4
    assert lines[1] == ("null" if json_lines else "")
    assert lines[0]
    assert lines[2]


def test_skipping_lines_of_a_table_is_refused(weft, classifier):
    Path("new.csv").write_text("text\nthe red\n", encoding="utf-8")
    outcome = weft("predict", classifier, "new.csv", "--skip-bad-lines")
    assert outcome.code == 2
    assert outcome.err.startswith("error --skip-bad-lines: is for plain lines (leave it out, or add --out")


def test_very_long_lines_are_named_before_they_are_answered(weft, classifier):
    Path("lines.txt").write_text("the red\n" + "the cow " * 2501 + "\n", encoding="utf-8")
    outcome = weft("predict", classifier, "lines.txt")
    assert outcome.code == 0
    assert "note lines.txt:2: 20,008 characters take long" in outcome.err
    assert "lines.txt:1" not in outcome.err


def test_probabilities_of_plain_lines(weft, classifier, monkeypatch):
    given = io.TextIOWrapper(io.BytesIO(b"the red\n\n"), encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", given)
    first, second = weft("predict", classifier, "--probabilities").out.splitlines()
    answer = package.load(classifier).predict("the red")
    assert first.split("\t")[::2] == list(answer.probabilities)
    assert [float(share) for share in first.split("\t")[1::2]] == pytest.approx(
        list(answer.probabilities.values()), rel=1e-3
    )
    assert second == ""


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["new.csv", "--stream"], "error --stream: writes plain text (leave it out, or add --format text)"),
        (["new.csv", "--json", "--probabilities"], "error --probabilities: is for plain text and tables"),
        (["new.csv", "--format", "xml"], 'error --format: "xml" is not a format here'),
        (["new.csv", "--column", "body"], 'error new.csv:1: no column "body" in the header'),
    ],
)
def test_a_mistake_is_one_line(weft, classifier, words, line):
    Path("new.csv").write_text("id,text\n1,a\n", encoding="utf-8")
    outcome = weft("predict", classifier, *words)
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err.startswith(line)
    assert outcome.err.count("\n") == 1


def test_a_tagger_and_a_translator(weft, tagged, pairs, tmp_path):
    for task, data, model in (
        ("tag", tagged, SMALL | {"characters": 4}),
        ("translate", pairs, {"encoder": SMALL, "decoder": SMALL}),
    ):
        config = {"task": task, "data": {"train": data}, "model": model, "train": {"steps": 2}}
        package.train(config, out=tmp_path / task, quiet=True)
    Path("new.tsv").write_text("the\tDET\ncat\tNOUN\n\n", encoding="utf-8")
    (answer,) = package.load("tag").predict([["the", "cat"]])
    assert weft("predict", "tag", "new.tsv").out == f"the\tDET\t{answer.tags[0]}\ncat\tNOUN\t{answer.tags[1]}\n\n"
    words = weft("predict", "tag", "new.tsv", "--format", "text", "--probabilities").out.splitlines()[0].split(" ")
    assert [word.count("/") for word in words] == [2, 2]
    Path("new.jsonl").write_text('{"id": 1, "source": "one two"}\n', encoding="utf-8")
    found = json.loads(weft("predict", "translate", "new.jsonl", "--n-best", "2", "--beam", "3", "--probabilities").out)
    answer = package.load("translate").predict("one two", n_best=2, beam=3)
    texts = [candidate.text for candidate in answer.candidates]
    assert found == {
        "id": 1,
        "source": "one two",
        "translation": texts[0],
        "translation_2": texts[1],
        "score": pytest.approx(answer.score),
    }


def test_lines_typed_at_a_prompt(weft, classifier, monkeypatch):
    typed = iter(["the red", "", "the cow"])

    def ask(prompt):
        assert prompt == "> "
        try:
            return next(typed)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("builtins.input", ask)
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    outcome = weft("predict", classifier)
    assert outcome.code == 0
    answers = package.load(classifier).predict(["the red", "the cow"])
    assert outcome.out == f"{answers[0].label}\n{answers[1].label}\n\n"
    assert outcome.err == "ready  type a text and press Enter; Ctrl-D ends\n"
