"""A bag of n-grams that predicts a number: chosen for few texts, learned, resumed, loaded, and beside a network."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import weft as package
from weft.config import fill
from weft.errors import ConfigError
from weft.models import fit_number_bag
from weft.models.bag.fit import BagFit
from weft.run.folder.files import WEIGHTS
from weft.tasks import Facts

pytestmark = pytest.mark.covers("M2b")

VALUES = {"awful": -30.0, "bad": -10.0, "fine": 10.0, "superb": 30.0}
CONFIG = {"task": "regress", "data": {"train": "train.tsv", "test": "test.tsv"}, "model": {"kind": "bag"}}


def graded(count: int, seed: int) -> list[tuple[str, float]]:
    """Texts whose number is 500 and the values of two words, among words that say nothing."""
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        words = draw.choices(list(VALUES), k=2)
        rows.append((" ".join([*words, *draw.choices("abcdefgh", k=3)]), 500 + sum(VALUES[word] for word in words)))
    return rows


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, count, seed in (("train", 600, 0), ("test", 100, 1)):
        lines = "".join(f"{text}\t{number}\n" for text, number in graded(count, seed))
        (tmp_path / f"{name}.tsv").write_text(f"text\tlabel\n{lines}", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_is_chosen_for_few_texts_and_learns(weft, here):
    done = weft("train", "regress", "train.tsv", "data.test=test.tsv", "--out", "run")
    assert done.code == 0, done.err
    assert 'chose model.kind = "bag" because 600 examples are few' in done.err
    report = json.loads(Path("run/report.json").read_text(encoding="utf-8"))
    assert report["test"]["rmse"] < 0.3 * report["baselines"]["test"]["mean"]["rmse"]
    assert set(report["baselines"]["test"]) == {"mean", "median"}  # the bag is the model itself
    run = package.load("run")
    low, high, unknown = run.predict(["awful awful", "superb fine", "Ωж"])
    assert low.number < 470 < 510 < high.number
    mean = np.mean([number for _, number in graded(600, 0)])
    assert unknown.number == pytest.approx(mean, abs=3), "a text without known n-grams gets the mean"
    assert run.evaluate("test.tsv").metrics == report["test"]
    Path("new.txt").write_text("awful bad\n", encoding="utf-8")
    assert json.loads(weft("predict", "run", "new.txt", "--json").out)["number"] < 480


def test_a_resumed_training_gives_the_same_weights(here, monkeypatch):
    config = CONFIG | {"train": {"epochs": 4, "checkpoint_every": 1}}
    package.train(config, out="whole", quiet=True)
    step = BagFit.step

    def stopped(self: BagFit, number: int) -> Any:
        if number == 3 and not Path("again").exists():
            raise KeyboardInterrupt
        return step(self, number)

    monkeypatch.setattr(BagFit, "step", stopped)
    with pytest.raises(KeyboardInterrupt):
        package.train(config, out="stopped", quiet=True)
    Path("again").touch()
    package.train(config, out="stopped", quiet=True, resume=True)
    whole, resumed = (load_file(f"{folder}/{WEIGHTS}") for folder in ("whole", "stopped"))
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


def test_it_stands_beside_a_network_in_the_report(here):
    model = {"kind": "rnn", "embedding": 4, "hidden": 4}
    run = package.train(CONFIG | {"model": model, "train": {"steps": 2}}, out="run", quiet=True)
    simple = run.report["baselines"]["test"]
    assert simple["bag"]["rmse"] < 0.3 * simple["mean"]["rmse"]
    assert simple["bag"]["examples"] == 540, "validation examples are not trained on"


@pytest.mark.parametrize(("examples", "tree", "kind"), [(30_000, {}, "bag"), (30_001, {}, "rnn")])
def test_the_default_kind_depends_on_the_data(examples, tree, kind):
    assert fill({"task": "regress", "data": {"train": "x"}, **tree}, Facts(examples, examples * 40)).model.kind == kind


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"model": {"kind": "bag", "thresholds": "f1"}}, r"model\.thresholds: no such setting"),
        ({"train": {"class_weights": "balanced"}}, r"train\.class_weights"),
    ],
    ids=str,
)
def test_settings_of_labels_are_refused(here, tree, message):
    with pytest.raises(ConfigError, match=message):
        package.train(CONFIG | tree, out="run", quiet=True)


def test_a_bag_of_numbers_is_a_linear_model():
    """Words add up: the number of two words lies where their sums say, in the unit of the data."""
    rows = graded(800, 2)
    fitted = fit_number_bag([(text, (number - 500) / 30) for text, number in rows])
    texts = [text for text, _ in graded(200, 3)]
    gold = np.array([number for _, number in graded(200, 3)])
    assert np.corrcoef(fitted.numbers(texts), gold)[0, 1] > 0.97
