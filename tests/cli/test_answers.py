"""Numbers, pairs, several labels and feature vectors through every command."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path

import pytest

SMALL = ("model.kind=rnn", "model.embedding=8", "model.hidden=8", "--quiet")


def write(name: str, rows: list[str]) -> None:
    Path(name).write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")


@pytest.mark.covers("M2b")
def test_a_regressor_goes_through_every_command(weft) -> None:
    draw = random.Random(0)
    for part, size in (("train", 200), ("valid", 40), ("test", 40)):
        words = [["".join(draw.choices("abcdeiou", k=draw.randint(2, 9)))] for _ in range(size)]
        write(f"{part}.tsv", ["text\tlabel", *(f"{word}\t{len(word) / 2}" for [word] in words)])
    assert weft("new", "regress", "--out", "my.toml").code == 0
    assert weft("train", "my.toml", *SMALL, "--dry-run", "train.steps=4").code == 0
    train = ("train", "my.toml", *SMALL, "train.rate=0.02", "--out", "good")
    assert weft(*train, "train.steps=10").code == 0
    done = weft(*train, "train.steps=60", "--resume")
    assert (done.code, done.err) == (0, "")
    whole = weft(*train[:-1], "whole", "train.steps=60")
    assert whole.code == 0, whole.err
    report = json.loads(Path("good/report.json").read_text(encoding="utf-8"))
    assert list(report["test"]) == ["mae", "rmse", "loss", "spearman"]
    assert report["test"]["rmse"] < report["baselines"]["test"]["mean"]["rmse"]
    found = json.loads(weft("evaluate", "good", "test.tsv", "--json").out)
    assert found["spearman"] == pytest.approx(report["test"]["spearman"], abs=1e-3)
    assert "rmse" in weft("evaluate", "good", "test.tsv").out
    compared = json.loads(weft("compare", "good", "whole", "--data", "test.tsv", "--json").out)["runs"]
    assert compared[0]["metrics"]["spearman"] == pytest.approx(found["spearman"], abs=1e-3)
    assert set(compared[1]["differences"]) == {"mae", "rmse", "loss", "spearman"}
    rows = [line.split("\t") for line in weft("predict", "good", "test.tsv").out.splitlines()]
    assert rows[0] == ["text", "label", "number"]
    assert abs(float(rows[1][2]) - float(rows[1][1])) < 2
    assert "always the mean of the training data: mae" in Path("good/README.md").read_text(encoding="utf-8")
    write("bad.tsv", ["text\tlabel", "abc\tmuch"])
    bad = weft("evaluate", "good", "bad.tsv")
    assert (bad.code, len(bad.err.splitlines())) == (2, 1)
    assert "bad.tsv:2: \"label\" is 'much', not a number" in bad.err
    assert weft("data", "show", "regress", "test.tsv").code == 0


@pytest.mark.covers("T7")
def test_a_table_with_a_row_per_step_gets_its_answers(weft) -> None:
    draw = random.Random(0)
    rows = ["id,x,y,label"]
    for number in range(80):
        label = draw.choice(["up", "down"])
        for step in range(draw.randint(2, 5)):
            rows.append(f"{number},{(step if label == 'up' else -step) + draw.random()},{draw.random()},{label}")
    write("walks.csv", rows)
    data = ("data.features=*", "data.sequence=id")
    trained = weft("train", "classify", "walks.csv", *data, *SMALL, "train.steps=60", "train.rate=0.02", "--out", "run")
    assert trained.code == 0, trained.err
    write("new.csv", ["id,x,y", "a,0,0.5", "a,1,0.5", "a,2,0.5", "b,0,0.5", "b,-1,0.5", "b,-2,0.5"])
    answered = list(csv.reader(weft("predict", "run", "new.csv").out.splitlines()))
    assert answered[0] == ["id", "x", "y", "label", "probability"]
    assert [row[3] for row in answered[1:]] == ["up"] * 3 + ["down"] * 3
    lines = weft("predict", "run", "new.csv", "--json").out.splitlines()
    assert [json.loads(line)["steps"] for line in lines] == [3, 3]
    assert weft("evaluate", "run", "walks.csv").code == 0
    assert weft("data", "show", "classify", "walks.csv", *data).code == 0
    write("wide.csv", ["id,x,y,z", "a,0,1,2"])
    wide = weft("predict", "run", "wide.csv")
    assert (wide.code, len(wide.err.splitlines())) == (2, 1)
    assert "wide.csv:2: 3 numbers in a step, where the training data has 2" in wide.err


def test_pairs_and_several_labels_in_tables(weft) -> None:
    draw = random.Random(0)
    rows = ["one\ttwo\ttags"]
    for number in range(120):
        words = [draw.choice(["cat", "dog", "red"]) for _ in range(2)]
        rows.append(f"{words[0]} {number}\t{words[1]}\t{json.dumps(sorted(set(words)))}")
    write("pairs.tsv", rows)
    data = ("data.text=one", "data.pair=two", "data.label=tags", "data.labels=many")
    trained = weft("train", "classify", "pairs.tsv", *data, *SMALL, "train.steps=20", "--out", "run")
    assert trained.code == 0, trained.err
    found = weft("predict", "run", "pairs.tsv")
    header, first = (line.split("\t") for line in found.out.splitlines()[:2])
    assert header == ["one", "two", "tags", "labels"]
    assert isinstance(json.loads(first[3]), list)
    write("lines.txt", ["a cat\tdog"])
    answer = json.loads(weft("predict", "run", "lines.txt", "--json").out)
    assert (answer["text"], answer["second"]) == ("a cat", "dog")
    write("new.csv", ["a,b", "cat,dog"])
    assert weft("predict", "run", "new.csv", "--column", "a", "--column", "b", "--probabilities").code == 0
    wrong = weft("predict", "run", "new.csv", "--column", "a")
    assert (wrong.code, len(wrong.err.splitlines())) == (2, 1)
    assert "name two: --column FIRST --column SECOND" in wrong.err
    evaluated = weft("evaluate", "run", "pairs.tsv")
    assert "micro f1" in evaluated.out
    assert "exact" in evaluated.out
    assert "confusion" not in evaluated.out
    assert "frequent" in json.loads(Path("run/report.json").read_text(encoding="utf-8"))["baselines"]["valid"]


@pytest.mark.covers("T7")
def test_every_row_of_a_table_gets_its_tag(weft) -> None:
    draw = random.Random(0)
    rows = ["sequence,x,tags"]
    for number in range(60):
        for _ in range(draw.randint(2, 5)):
            x = draw.uniform(-5, 5)
            rows.append(f"{number},{x},{'high' if x > 0 else 'low'}")
    write("steps.csv", rows)
    trained = weft(
        "train", "tag", "steps.csv", "data.features=x", *SMALL, "train.steps=60", "train.rate=0.02", "--out", "run"
    )
    assert trained.code == 0, trained.err
    write("new.csv", ["sequence,x", "a,4", "a,-4", "b,3"])
    answered = list(csv.reader(weft("predict", "run", "new.csv").out.splitlines()))
    assert answered == [["sequence", "x", "tags"], ["a", "4", "high"], ["a", "-4", "low"], ["b", "3", "high"]]
    assert weft("evaluate", "run", "steps.csv").code == 0
    assert weft("score", "run", "steps.csv").code == 0
    write("new.jsonl", ['{"x": [4.0, -4.0]}'])
    assert json.loads(weft("predict", "run", "new.jsonl").out)["tags"] == ["high", "low"]
    refused = weft("train", "tag", "steps.csv", "data.features=x", "model.kind=hmm", "--quiet")
    assert (refused.code, len(refused.err.splitlines())) == (2, 1)
    assert "counts words, and the input is feature vectors" in refused.err
