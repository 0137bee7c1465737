"""A bag of n-grams from the configuration to the run: chosen for few texts, trained, resumed, loaded, compared."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import weft as package
from weft.config import fill
from weft.errors import ConfigError, RunError
from weft.models.bag.fit import BagFit
from weft.run.conclusions import conclusions
from weft.run.folder.files import WEIGHTS
from weft.tasks import Facts
from weft.tasks.choice import describe_choice

pytestmark = pytest.mark.covers("M2")

CONFIG = {"task": "classify", "data": {"train": "train.tsv", "test": "test.tsv"}, "model": {"kind": "bag"}}


def surnames(path: Path, count: int, seed: int) -> None:
    """Names that their endings tell apart, in three languages of different frequency."""
    draw = random.Random(seed)
    endings = {"Czech": ("ova", "cek"), "Greek": ("akis", "oulos"), "Italian": ("ini", "elli")}
    lines = []
    for number in range(count):
        label = list(endings)[min(2, number % 4)]
        lines.append("".join(draw.choices("bdfgklmnprst", k=4)).title() + draw.choice(endings[label]) + f"\t{label}\n")
    path.write_text("".join(lines), encoding="utf-8")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    surnames(tmp_path / "train.tsv", 1200, 0)
    surnames(tmp_path / "test.tsv", 100, 1)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def report(folder: str) -> dict[str, Any]:
    return json.loads((Path(folder) / "report.json").read_text(encoding="utf-8"))


def test_it_is_chosen_for_few_texts_and_a_note_says_so(weft, here):
    done = weft("train", "classify", "train.tsv", "data.test=test.tsv", "--out", "run")
    assert done.code == 0, done.err
    assert 'chose model.kind = "bag" because 1,200 examples are few' in done.err
    found = report("run")
    assert found["test"]["accuracy"] > 0.97
    assert set(found["baselines"]["test"]) == {"majority"}  # it is the other one itself
    assert found["calibration"]["examples"] == 120
    run = package.load("run")
    answers = run.predict(["Petrakis", "NOVACEK", "", "Ωж", "a" * 30_000])
    assert [answer.label for answer in answers[:2]] == ["Greek", "Czech"]
    for answer in answers:
        assert sum(answer.probabilities.values()) == pytest.approx(1, abs=1e-5)
    assert answers[2].probabilities == pytest.approx({"Czech": 0.25, "Greek": 0.25, "Italian": 0.5}, abs=0.01)
    assert answers[3].probabilities == pytest.approx(answers[2].probabilities)
    assert run.evaluate("test.tsv").metrics == found["test"]
    shown = weft("evaluate", "run", "test.tsv")
    assert shown.code == 0, shown.err
    assert "chose model.kind" not in weft("train", "classify", "train.tsv", "model.kind=bag", "--out", "other").err
    compared = weft("compare", "run", "other", "--data", "test.tsv")
    assert compared.code == 0, compared.err


@pytest.mark.parametrize(
    ("examples", "tree", "kind"),
    [
        (30_000, {}, "bag"),
        (30_001, {}, "rnn"),
        (100, {"model": {"kind": "rnn"}}, "rnn"),
        (100, {"model": {"hidden": 8}}, "rnn"),
        (100, {"model": {"thresholds": "f1"}}, "bag"),
        (100, {"model": {"thresholds": "f1", "dropout": 0.1}}, "rnn"),
        (100, {"text": {"kind": "word"}}, "rnn"),
        (100, {"text": {"lowercase": False}, "train": {"epochs": 3, "rate": 0.5}}, "bag"),
        (100, {"train": {"optimizer": "sgd"}}, "rnn"),
        (100, {"train": {"batch_tokens": 64}}, "rnn"),
        (100, {"train": {"device": "cuda"}}, "rnn"),
        (100, {"data": {"train": "x", "max_length": 10}}, "rnn"),
        (10**6, {"model": {"kind": "bag"}}, "bag"),
    ],
    ids=str,
)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_default_kind_depends_on_the_data_and_on_what_is_written(examples, tree, kind, device):
    config = fill({"task": "classify", "data": {"train": "x"}, **tree}, Facts(examples, examples * 40, device))
    assert config.model.kind == kind


def test_a_setting_that_a_bag_reads_too_leaves_the_choice_and_its_note():
    tree = {"task": "classify", "data": {"train": "x"}, "model": {"thresholds": "f1"}}
    assert 'chose model.kind = "bag"' in describe_choice(Facts(100, 4_000), tree)
    assert not describe_choice(Facts(100, 4_000), tree | {"model": {"kind": "bag", "thresholds": "f1"}})


def test_a_note_says_why_few_pairs_get_a_network():
    tree = {"task": "classify", "data": {"train": "x", "pair": "second"}}
    assert fill(tree, Facts(100, 4_000)).model.kind == "rnn"
    assert "cannot compare the texts of a pair" in describe_choice(Facts(100, 4_000), tree)
    assert not describe_choice(Facts(10**6, 10**7), tree)


def test_thresholds_that_were_not_chosen_are_not_claimed(here):
    """One validation example chooses nothing, and the sentences of the report say so."""
    data = {"train": "train.tsv", "valid": [("Petrakis", "Greek")]}
    config = CONFIG | {"data": data, "model": {"kind": "bag", "thresholds": "f1"}, "train": {"epochs": 1}}
    run = package.train(config, out="run", quiet=True)
    assert run.report["calibration"]["default_thresholds"] == ["Czech", "Greek", "Italian"]
    said = "no decision thresholds were chosen: 50 validation examples are needed, and the data has 1"
    assert said in list(conclusions(run.report))


@pytest.mark.parametrize(("mean", "sizes"), [(8, [2, 5]), (60, [2, 5]), (1_300, 0)])
def test_short_texts_have_ngrams_of_characters_too(mean, sizes):
    config = fill({"task": "classify", "data": {"train": "x"}}, Facts(2_000, 2_000 * mean))
    assert config.model.char_ngrams == sizes


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (
            {"text": {"kind": "word"}},
            r'text\.kind = "word": does not go with model\.kind = "bag", which reads characters',
        ),
        ({"train": {"optimizer": "sgd"}}, r'train\.optimizer = "sgd": does nothing with model\.kind = "bag"'),
        ({"train": {"batch_tokens": 64}}, r'train\.batch_tokens = 64: does nothing with model\.kind = "bag"'),
        ({"model": {"kind": "bag", "hidden": 3}}, r"model\.hidden: no such setting"),
        ({"model": {"kind": "bag", "word_ngrams": 16}}, r"model\.word_ngrams = 16: is more than 15"),
        ({"model": {"kind": "bag", "buckets": 10**9}}, r"model\.buckets = 1000000000: is more than"),
        ({"model": {"kind": "bag", "char_ngrams": [5, 2]}}, r"model\.char_ngrams.*is not a range such as \[2, 5\]"),
    ],
    ids=str,
)
def test_settings_that_do_not_go_with_it_are_refused(here, tree, message):
    with pytest.raises(ConfigError, match=message):
        package.train(CONFIG | tree, out="run", quiet=True)


def test_a_resumed_training_gives_the_same_weights(here, monkeypatch):
    config = CONFIG | {"train": {"epochs": 4, "checkpoint_every": 3}}
    package.train(config, out="whole", quiet=True)
    step = BagFit.step

    def stopped(self: BagFit, number: int) -> Any:
        if number == 6 and not Path("again").exists():
            raise KeyboardInterrupt
        return step(self, number)

    monkeypatch.setattr(BagFit, "step", stopped)
    with pytest.raises(KeyboardInterrupt):
        package.train(config, out="stopped", quiet=True)
    Path("again").touch()
    package.train(config, out="stopped", quiet=True, resume=True)
    whole, resumed = (load_file(f"{folder}/{WEIGHTS}") for folder in ("whole", "stopped"))
    assert whole.keys() == resumed.keys()
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)
    same = ("valid", "test", "steps", "best_step", "parameters")
    assert [report("whole")[name] for name in same] == [report("stopped")[name] for name in same]


def test_class_weights_and_thresholds_help_a_rare_label(here):
    """One text in twelve is spam and has the word money; of three texts with that word two are not spam."""
    lines = []
    for number in range(1200):
        spam, money = number % 12 == 0, number % 4 == 0
        lines.append(f"{'money' if money else 'lunch'} at{number}\t{'spam' if spam else 'mail'}\n")
    Path("skewed.tsv").write_text("".join(lines), encoding="utf-8")
    tree = {"task": "classify", "data": {"train": "skewed.tsv"}}
    plain, weighed, decided = (
        package.train(tree | more, out=name, quiet=True).report["details"]["valid"]["per_class"]
        for name, more in (
            ("plain", {"model": {"kind": "bag"}}),
            ("weighed", {"train": {"class_weights": "balanced", "metric": "f1"}}),
            ("decided", {"model": {"kind": "bag", "thresholds": "f1"}}),
        )
    )
    recall = [{row["label"]: row["recall"] for row in rows}["spam"] for rows in (plain, weighed, decided)]
    assert package.load("weighed").config.model.kind == "bag"
    assert recall[0] < 0.2
    assert min(recall[1:]) > 0.8
    assert package.load("decided").model.thresholds is not None


def test_a_text_may_have_several_labels(here):
    draw = random.Random(0)
    topics = {"sea": ["ship", "wave"], "sky": ["bird", "cloud"], "land": ["tree", "road"]}
    rows = []
    for _ in range(600):
        own = [topic for topic in topics if draw.random() < 0.4]
        words = [draw.choice(topics[topic]) for topic in own] + draw.choices(["the", "a", "of", "and"], k=4)
        draw.shuffle(words)
        rows.append((" ".join(words), ",".join(own)))
    Path("many.tsv").write_text("".join(f"{text}\t{labels}\n" for text, labels in rows), encoding="utf-8")
    config = {"task": "classify", "data": {"train": "many.tsv", "labels": "many"}}
    run = package.train(config, out="many", quiet=True)
    assert run.config.model.kind == "bag"
    assert run.report["valid"]["micro_f1"] > 0.97
    sea, none, unknown = run.predict(["the ship and a bird", "the and", "xyzzy"])
    assert set(sea.labels) == {"sea", "sky"}
    assert none.labels == ()
    assert all(0.3 < share < 0.5 for share in unknown.probabilities.values())


def test_weights_that_belong_to_other_settings_are_refused(here):
    package.train(CONFIG, out="run", quiet=True)
    package.train(CONFIG | {"model": {"kind": "bag", "buckets": 1000}}, out="small", quiet=True)
    Path("small/config.json").write_bytes(Path("run/config.json").read_bytes())
    with pytest.raises(RunError):
        package.load("small")


def test_a_dry_run_and_a_new_config_know_it(weft, here):
    assert weft("new", "classify", "--kind", "bag", "--out", "bag.toml").code == 0
    text = Path("bag.toml").read_text(encoding="utf-8")
    assert '\nkind = "bag"' in text
    assert "# word_ngrams = 2" in text
    found = weft("train", "bag.toml", "data.valid=test.tsv", "--dry-run")
    assert found.code == 0, found.err
    assert "parameters on cpu" in found.out + found.err
