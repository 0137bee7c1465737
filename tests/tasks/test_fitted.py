"""A model that fits itself is trained, resumed, saved, loaded and reported like every other one."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Literal

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.tasks.test_toy_task import count, files, report  # noqa: F401
from torch import nn

import weft as weft_package
from weft.errors import ConfigError, RunError, WeftError
from weft.models import Fit, FitStep, FittedModel, FittedSettings
from weft.run.folder.files import WEIGHTS
from weft.tasks import Sections
from weft.tasks.classify import LabelledData
from weft.text import TextConfig


class MeansConfig(FittedSettings):
    kind: Literal["means"] = "means"


class Means(FittedModel):
    """The mean number of the texts with each token; a text has the mean of its tokens' numbers."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.words = words
        self.means = nn.Parameter(torch.zeros(0), requires_grad=False)

    def fit(self, examples, options):
        return MeansFit(self, examples, options)

    def allocate(self, shapes):
        if shapes.get("means") != (self.words,):
            raise ValueError("means are not as many as words")
        self.means = nn.Parameter(torch.zeros(self.words, device=self.means.device), requires_grad=False)

    def check(self):
        if bool((self.means < 0).any()):
            raise ValueError("a mean is negative")

    def forward(self, tokens):
        means = self.means if len(self.means) else torch.zeros(self.words)
        real = tokens != 0
        return (means[tokens] * real).sum(1) / real.sum(1).clamp(min=1)


class MeansFit(Fit):
    total, every = 4, 2

    def __init__(self, model, examples, options) -> None:
        self.model, self.examples, self.options = model, examples, options
        self.sums, self.counts = torch.zeros(model.words), torch.zeros(model.words)

    def step(self, number):
        tokens, numbers = self.examples.columns["tokens"], self.examples.columns["numbers"]
        rows = range(number - 1, len(self.examples), self.total)
        for row in rows:
            for token in tokens[row].tolist():
                self.sums[token] += float(numbers[row][0])
                self.counts[token] += 1
        self.model.means = nn.Parameter(self.sums / self.counts.clamp(min=1), requires_grad=False)
        return FitStep(len(rows), rate=self.options.rate)

    def state(self):
        return {"sums": self.sums, "counts": self.counts}

    def restore(self, state):
        self.sums, self.counts = state["sums"].clone(), state["counts"].clone()


@pytest.fixture
def fitted(count, monkeypatch):  # noqa: F811
    monkeypatch.setattr(count, "sections", Sections(LabelledData, TextConfig, MeansConfig, marks=0))
    monkeypatch.setattr(count, "build", staticmethod(lambda model, codec: Means(len(codec.tokenizers[""]))))


CONFIG = {"task": "count", "data": {"train": "train.tsv", "valid": "valid.tsv", "test": "test.tsv"}}


@pytest.fixture
def run(fitted, files, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    return weft_package.train(CONFIG, out="run", quiet=True)


def test_it_is_trained_and_loaded(run):
    again = weft_package.load("run")
    assert [str(one) for one in run.predict(["abe", "bcd"])] == [str(one) for one in again.predict(["abe", "bcd"])]
    assert report("run")["steps"] == 4
    assert report("run")["parameters"] == len(run.model.means) > 0
    lines = [json.loads(line) for line in Path("run/metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [line["step"] for line in lines if "valid" in line] == [2, 4]
    assert not any("loss" in line for line in lines if "valid" not in line)  # this model has none


@pytest.mark.parametrize("resumable", [True, False])
def test_it_resumes_where_it_was_stopped(run, monkeypatch, resumable):
    monkeypatch.setattr(MeansFit, "resumable", resumable)
    step, made = MeansFit.step, []

    def stopped(self, number):
        made.append(number)
        if len(made) == 4:
            raise KeyboardInterrupt
        return step(self, number)

    monkeypatch.setattr(MeansFit, "step", stopped)
    with pytest.raises(KeyboardInterrupt):
        weft_package.train(CONFIG, out="stopped", quiet=True)
    weft_package.train(CONFIG, out="stopped", quiet=True, resume=True)
    assert made == ([1, 2, 3, 4, 3, 4] if resumable else [1, 2, 3, 4, 1, 2, 3, 4])
    expected, found = (load_file(f"{folder}/{WEIGHTS}") for folder in ("run", "stopped"))
    assert torch.equal(expected["means"], found["means"])


@pytest.mark.parametrize(
    ("means", "message"), [(torch.zeros(3), "not as many"), (None, "negative"), (torch.zeros(2, 2), "not as many")]
)
def test_tensors_of_another_size_or_with_wrong_numbers_are_refused(run, means, message):
    wrong = -torch.ones(len(run.model.means)) if means is None else means
    save_file({"means": wrong}, "wrong.safetensors")
    content = Path("wrong.safetensors").read_bytes()
    Path(f"run/{WEIGHTS}").write_bytes(content)
    manifest = json.loads(Path("run/manifest.json").read_text(encoding="utf-8"))
    manifest["sha256"][WEIGHTS] = hashlib.sha256(content).hexdigest()
    Path("run/manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    with pytest.raises(RunError, match=message):
        weft_package.load("run")


@pytest.mark.parametrize("setting", [{"optimizer": "sgd"}, {"clip": 0.5}, {"device": "cuda"}])
def test_a_setting_that_nothing_reads_is_an_error(fitted, files, tmp_path, monkeypatch, setting):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=f'train.{next(iter(setting))} = .*does nothing with model.kind = "means"'):
        weft_package.train(CONFIG | {"train": setting}, out="run", quiet=True)


def test_a_dry_run_estimates_its_time(fitted, files, tmp_path, weft):  # noqa: F811
    (tmp_path / "count.toml").write_text(
        'task = "count"\n[data]\ntrain = "train.tsv"\nvalid = "valid.tsv"\n', encoding="utf-8"
    )
    found = weft("train", "count.toml", "--dry-run")
    assert found.code == 0
    assert "4 updates and 2 validations" in found.out
    assert "largest batch" not in found.out


@pytest.mark.parametrize("allowed", [True, False])
def test_only_a_model_that_may_be_infinite_may_have_an_infinite_loss(
    fitted,
    files,  # noqa: F811
    tmp_path,
    monkeypatch,
    allowed,
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Means, "can_be_infinite", allowed)
    monkeypatch.setattr(Means, "forward", lambda self, tokens: torch.full((len(tokens),), math.inf))
    if allowed:
        weft_package.train(CONFIG, out="run", quiet=True)
        assert report("run")["valid"]["loss"] is None
    else:
        with pytest.raises(WeftError, match="the validation loss is inf"):
            weft_package.train(CONFIG, out="run", quiet=True)
