"""A task of one's own: the page of docs/extending.md and its one line go through every command without another edit."""

from __future__ import annotations

import importlib
import json
import random
import re
import sys
from pathlib import Path

import pytest

from weft.tasks import TASKS

PAGE = (Path(__file__).parents[2] / "docs/extending.md").read_text(encoding="utf-8")


@pytest.fixture
def count(monkeypatch, tmp_path_factory):
    """The task of the page, registered by one line."""
    folder = tmp_path_factory.mktemp("page")
    page = re.search(r"```python\n# count.py\n(.*?)```", PAGE, re.DOTALL)
    (folder / "count_page.py").write_text(page[1], encoding="utf-8")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "count_page", raising=False)
    monkeypatch.setitem(TASKS, "count", importlib.import_module("count_page").Count)
    return TASKS["count"]


@pytest.fixture
def files(tmp_path):
    """Made-up words with the number of their vowels, under the names that the template uses."""
    draw = random.Random(0)
    for part, size in (("train", 400), ("valid", 60), ("test", 60)):
        words = ["".join(draw.choices("abcdeiou", k=draw.randint(2, 9))) for _ in range(size)]
        rows = [f"{word}\t{sum(letter in 'aeiou' for letter in word)}" for word in words]
        (tmp_path / f"{part}.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n", encoding="utf-8")


def report(folder):
    return json.loads((Path(folder) / "report.json").read_text(encoding="utf-8"))


def test_a_task_of_one_page_goes_through_every_command(count, files, weft):
    assert weft("new", "count", "--out", "count.toml").code == 0
    template = Path("count.toml").read_text(encoding="utf-8")
    assert template.startswith("# Texts with a number each to a model that counts.")
    assert 'train = "train.tsv"' in template
    assert "# width = 16" in template
    assert "[decode]" not in template

    train = ("train", "count.toml", "train.rate=0.03", "train.patience=50", "--out", "good", "--quiet")
    assert weft(*train, "train.steps=20").code == 0
    early = report("good")
    assert early["steps"] == 20
    assert list(early["test"]) == ["error", "loss"]
    done = weft(*train, "train.steps=150", "--resume")
    assert (done.code, done.err) == (0, "")
    late = report("good")
    assert late["steps"] == 150
    assert late["valid"]["error"] < 0.1 < early["valid"]["error"]  # the lowest error is the best

    found = json.loads(weft("evaluate", "good", "test.tsv", "--json").out)
    assert found["error"] == pytest.approx(late["test"]["error"])

    Path("words.txt").write_text("abaca\nbcdb\n", encoding="utf-8")
    assert [round(float(line)) for line in weft("predict", "good", "words.txt").out.splitlines()] == [3, 0]
    rows = weft("predict", "good", "test.tsv").out.splitlines()
    header, first = rows[0].split("\t"), rows[1].split("\t")
    assert round(float(first[-1])) == int(first[header.index("label")])
    answer = json.loads(weft("predict", "good", "words.txt", "--json").out.splitlines()[0])
    assert answer == {"text": "abaca", "number": pytest.approx(3, abs=0.5)}

    assert weft("train", "count.toml", "train.steps=20", "seed=1", "--out", "bad", "--quiet").code == 0
    compared = json.loads(weft("compare", "good", "bad", "--data", "test.tsv", "--json").out)["runs"]
    expected = {name: found[name] for name in ("error", "loss")}
    # Rows that are read alone and rows in batches round differently.
    assert compared[0]["metrics"] == pytest.approx(expected, rel=1e-4)
    difference = compared[1]["differences"]["error"]
    assert 0 < difference["low"] < difference["difference"] < difference["high"]

    card = Path("good/README.md").read_text(encoding="utf-8")
    assert card.startswith('---\nlibrary_name: weft\ntags:\n- weft\n- "count"\n')
    assert "\n---\n\n# weft count\n" in card
    assert f"| test | error | {late['test']['error']:.3f} |" in card


REFUSED = {
    ("predict", "run", "words.txt", "--beam", "3"): "count writes no text to search for",
    ("predict", "run", "words.txt", "--stream"): "writes no text, so stream mean nothing",
    ("score", "run", "words.txt"): "gives no probability to texts",
    ("export", "run", "--to", "huggingface", "--out", "out"): "count",
    ("inspect", "parameters", "count", "--labels", "3"): "count has no labels",
}


def test_what_it_does_not_support_is_an_error_of_one_line(count, files, weft):
    Path("words.txt").write_text("abaca\n", encoding="utf-8")
    assert weft("train", "count", "train.tsv", "train.steps=2", "--out", "run", "--quiet").code == 0
    for words, message in REFUSED.items():
        found = weft(*words)
        assert found.code != 0, words
        assert message in found.err
        assert len(found.err.splitlines()) == 1


def test_it_is_rehearsed_and_searched_for_settings(count, files, weft):
    found = weft("train", "count", "train.tsv", "train.steps=30", "--dry-run")
    assert found.code == 0
    assert "30 updates" in found.out
    swept = weft("sweep", "count", "train.tsv", "model.width=4,8", "train.steps=5", "--trials", "2", "--out", "sweep")
    assert swept.code == 0, swept.err
    found = weft("data", "show", "count", "train.tsv")
    assert found.code == 0, found.err
