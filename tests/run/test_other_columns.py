"""A run is measured on a file whose columns are others than those it was trained on."""

from __future__ import annotations

from pathlib import Path

import pytest

import weft as package
from weft.config import read_config
from weft.data import Tagged
from weft.data.example_columns import Columns
from weft.data.inputs import find_format
from weft.errors import ConfigError, DataError

ROWS = [(f"{word} thing {number}", label) for word, label in (("good", "pos"), ("bad", "neg")) for number in range(12)]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("columns")
    settings = {"data": {"train": ROWS}, "model": {"embedding": 8, "hidden": 8}, "train": {"steps": 2}}
    return package.train({"task": "classify", **settings}, out=folder / "run", quiet=True)


def test_columns_of_a_file_may_be_named_for_an_evaluation(run, tmp_path, weft):
    path = tmp_path / "stars.csv"
    path.write_text("stars,body\n" + "".join(f"{label},{text}\n" for text, label in ROWS), encoding="utf-8")
    with pytest.raises(DataError, match=r"data\.text=body data\.label=stars"):
        run.evaluate(str(path))
    found = run.evaluate(str(path), columns={"text": "body", "label": "stars"})
    assert found.metrics["accuracy"] == run.evaluate(ROWS).metrics["accuracy"]
    shown = weft("evaluate", str(run.folder), str(path), "data.text=body", "data.label=stars")
    assert shown.code == 0
    assert "24 examples" in shown.out


def test_tuples_are_read_in_order_whatever_the_columns_are_called(tmp_path):
    path = tmp_path / "reviews.csv"
    path.write_text("review,mood\n" + "".join(f"{text},{label}\n" for text, label in ROWS), encoding="utf-8")
    tree = {"task": "classify", "data": {"train": str(path), "text": "review", "label": "mood"}, "train": {"steps": 1}}
    run = package.train(tree | {"model": {"embedding": 8, "hidden": 8}}, out=tmp_path / "run", quiet=True)
    assert run.evaluate(ROWS).details["count"] == len(ROWS)


def test_a_classifier_scores_no_texts(run, weft, tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("good\nbad\n", encoding="utf-8")
    assert "gives no probability to texts" in weft("score", str(run.folder), str(path)).err


def test_data_in_the_place_of_a_task_is_answered_with_the_command(tmp_path):
    path = tmp_path / "reviews.csv"
    path.write_text("text,label\na,b\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"give a task first, as in: weft train classify .*reviews\.csv"):
        read_config(str(path))


@pytest.mark.parametrize("name", ["a.tsv", "a.conll", "a.iob2.gz", "A.BIO"])
def test_files_of_words_and_tags_are_known_by_their_suffix(name: str) -> None:
    assert find_format(name, Columns(Tagged, "text", "tags")) == "columns"
    assert find_format(Path(name).name + ".txt", Columns(Tagged, "text", "tags")) == "text"
