"""The model card: a header that the hub reads, with the numbers of the report, and nothing of this machine."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from huggingface_hub import ModelCard

import weft
from weft.catalog import TASKS
from weft.run.card import model_card, plain_card
from weft.run.data_facts import describe_data
from weft.run.harmless import harmless

SMALL = {"kind": "rnn", "embedding": 4, "hidden": 4}


@pytest.fixture
def trained(labelled: str, pairs: str, tmp_path: Path) -> Any:
    """trained(task) -> a run of two updates with validation and test data."""

    def make(task: str, **sections: Any) -> weft.Run:
        data = {"classify": labelled, "translate": pairs}[task]
        model = {"encoder": SMALL, "decoder": SMALL} if task == "translate" else SMALL
        config = {"task": task, "data": {"train": data, "test": data}, "model": model, "train": {"steps": 2}}
        return weft.train(config | sections, out=tmp_path / "run", quiet=True)

    return make


def card_of(run: weft.Run) -> str:
    return (run.folder / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("task", ["classify", "translate"])
def test_the_header_is_what_the_hub_reads_and_its_numbers_are_the_reports(trained: Any, task: str) -> None:
    run = trained(task, name='a "quoted": name')
    card = ModelCard(card_of(run))
    assert card.data.library_name == "weft"
    assert card.data.pipeline_tag == TASKS[task].pipeline_tag
    assert card.data.license is None
    assert {"weft", task} <= set(card.data.tags)
    assert card.data.model_name == 'a "quoted": name'
    results = card.data.eval_results
    found = {(one.dataset_split, one.metric_type): one.metric_value for one in results}
    splits = {"valid": "validation", "test": "test"}
    finite = {
        (splits[part], name): value
        for part in splits
        for name, value in run.report[part].items()
        if abs(value) < float("inf")
    }
    assert found == finite
    if task == "translate":
        names = [one.metric_name for one in results if one.metric_type == "chrf"]
        assert names
        assert all("version:" in name for name in names), "a score has its signature"
    assert ModelCard(str(card)).data.to_dict() == card.data.to_dict()


def test_the_card_says_what_it_was_trained_on_and_its_limits(trained: Any, labelled: str) -> None:
    run = trained("classify")
    card, report = card_of(run), run.report
    (file,) = report["data"]["train"]["files"]
    assert (file["name"], file["bytes"]) == ("labelled.tsv", Path(labelled).stat().st_size)
    assert len(file["sha256"]) == 64
    assert report["data"]["valid"]["part_of"] == "train"
    total = report["data"]["train"]["examples"] + report["data"]["valid"]["examples"]
    assert total == len(Path(labelled).read_text(encoding="utf-8").splitlines()) - 1
    examples = report["data"]["train"]["examples"]
    assert f"| train | `labelled.tsv` | {file['bytes']:,} | `{file['sha256'][:16]}…` | {examples} |" in card
    for words in ("## Data", "## Scores", "## Limits", "## Reproduce", "up to 400 tokens", "are not calibrated"):
        assert words in card
    assert f"learned from {examples} examples" in card
    assert f"torch {report['versions']['torch']}" in card


def test_no_folder_of_this_machine_is_in_the_card_or_the_report(trained: Any, labelled: str) -> None:
    run = trained("classify")
    for name in ("README.md", "report.json"):
        assert str(Path(labelled).parent) not in (run.folder / name).read_text(encoding="utf-8")
    assert 'train = "labelled.tsv"' in card_of(run)


def test_the_command_of_the_card_repeats_the_run(trained: Any, weft: Any, labelled: str) -> None:
    run = trained("classify")
    (command,) = re.findall(r"^    weft (train config.json .*)$", card_of(run), re.MULTILINE)
    tree = json.loads((run.folder / "config.json").read_text(encoding="utf-8"))
    Path("config.json").write_text(json.dumps(harmless(tree).tree), encoding="utf-8")
    assert Path("labelled.tsv").exists(), "the data file is in the current folder"
    assert weft(*command.split()).code == 0
    again = json.loads(Path("again/report.json").read_text(encoding="utf-8"))
    assert again["valid"] == run.report["valid"]
    assert again["data"] == run.report["data"]


def test_a_card_says_that_time_ended_the_training(trained: Any) -> None:
    run = trained("classify", train={"seconds": 0.01, "epochs": 1000})
    assert "`train.seconds = 0.01`" in card_of(run)
    assert f"`train.steps={run.report['steps']}` gives it as many updates" in card_of(run)
    ended = run.report | {"ended": "all updates done"}
    assert "Time (" not in model_card(run.config, ended)


def test_examples_that_parts_share_are_named_in_report_and_card(trained: Any, labelled: str) -> None:
    run = trained("classify", data={"train": labelled, "valid": labelled})
    (note,) = run.report["overlaps"]
    assert "valid examples are also in the training data: the valid scores flatter the model" in note
    assert f"- {note}\n" in card_of(run)


def test_the_card_of_a_model_that_counts_has_only_what_applies(tmp_path: Path) -> None:
    lines = [f"one two {number}" for number in range(30)]
    (tmp_path / "texts.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    config = {"task": "lm", "data": {"train": str(tmp_path / "texts.txt")}, "model": {"kind": "ngram"}}
    run = weft.train(config, out=tmp_path / "run", quiet=True)
    card = card_of(run)
    assert f"{run.report['parameters']:,} parameters, seed 0." in card
    for word in ("update", "optimizer", "schedule", "batch_tokens", "texts of up to"):
        assert word not in card
    assert "order = " in card


def test_a_card_without_scores_that_are_finite(trained: Any) -> None:
    run = trained("classify")
    report = run.report | {"valid": {"loss": float("inf")}, "test": {"loss": float("nan")}}
    assert ModelCard(model_card(run.config, report)).data.eval_results is None


HARMLESS = {
    "/home/me/data/pairs.tsv": "pairs.tsv",
    "C:\\Users\\me\\pairs.tsv": "pairs.tsv",
    "data/pairs.tsv": "data/pairs.tsv",
    "hf://me/words": "hf://me/words",
    "/": "/",
}


@pytest.mark.parametrize("path", HARMLESS)
def test_paths_that_are_absolute_are_cut(path: str) -> None:
    tree = {"data": {"train": [path], "delimiter": "/x"}, "train": {"start": {"encoder": path}}, "name": "/a/b"}
    tree["model"] = {"encoder": {"embedding": {"file": path}}}
    found, cut = harmless(tree)
    expected = HARMLESS[path]
    assert found["data"] == {"train": [expected], "delimiter": "/x"}
    assert found["train"]["start"]["encoder"] == found["model"]["encoder"]["embedding"]["file"] == expected
    assert found["name"] == "/a/b"
    assert bool(cut) == (expected != path)


def test_data_without_files() -> None:
    class Data:
        train, valid, test = "given in Python", 0.2, None

    found = describe_data(Data, {"train": [1, 2], "valid": [1], "test": None})
    assert found == {"train": {"examples": 2, "files": []}, "valid": {"examples": 1, "part_of": "train"}}


def test_the_card_of_a_run_without_a_report() -> None:
    card = plain_card({"task": "lm", "name": 'x\x1b"'})
    header = yaml.safe_load(card.split("---")[1])
    assert header == {"library_name": "weft", "pipeline_tag": "text-generation", "tags": ["weft", "lm"]}
    assert "\x1b" not in card
