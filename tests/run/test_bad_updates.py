"""A run with updates that are not finite goes on, says so, and can be broken off and resumed like any other."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file

import weft as package
from weft.config import read_config
from weft.run.job import set_up
from weft.run.prepare import prepare
from weft.tasks import Classify, Loss
from weft.training import Journal, Update
from weft.training.gradients import size_of

TRAIN = {"steps": 14, "batch_tokens": 64, "evaluate_every": 4, "checkpoint_every": 3, "schedule": "constant"}


class Crash(Exception):
    """The process came to an unforeseen end."""


@pytest.fixture
def config(labelled):
    def make(**train):
        model = {"embedding": 8, "hidden": 8, "dropout": 0.2}
        return {"task": "classify", "data": {"train": labelled}, "model": model, "train": TRAIN | train}

    return make


@pytest.fixture
def _spoilt(monkeypatch):
    """Some batches, always the same ones, have a loss that is not a number."""
    plain = Classify.loss

    def loss(task, model, batch, **options):
        found = plain(task, model, batch, **options)
        return Loss(found.total * (torch.nan if int(batch.tokens.sum()) % 3 == 0 else 1.0), found.count)

    monkeypatch.setattr(Classify, "loss", loss)


def outcome(folder):
    lines = (folder / "metrics.jsonl").read_text("utf-8").splitlines()
    times = ("seconds", "tokens_per_second")
    tables = [{name: value for name, value in json.loads(line).items() if name not in times} for line in lines]
    return (folder / "model.safetensors").read_bytes(), tables


@pytest.mark.usefixtures("_spoilt")
def test_a_broken_run_with_bad_batches_ends_as_the_unbroken_one(config, monkeypatch, tmp_path):
    package.train(config(), out=tmp_path / "whole", quiet=True)
    write, bad = Journal.write, []

    def heard(journal, event):
        write(journal, event)
        if isinstance(event, Update):
            bad.extend(event.notes)
            if event.number == 8:
                monkeypatch.setattr(Journal, "write", write)
                raise Crash

    monkeypatch.setattr(Journal, "write", heard)
    with pytest.raises(Crash):
        package.train(config(), out=tmp_path / "broken", quiet=True)
    package.train(config(), out=tmp_path / "broken", quiet=True, resume=True)
    assert bad, "some of the updates were left out"
    assert outcome(tmp_path / "broken") == outcome(tmp_path / "whole")
    assert all(weight.isfinite().all() for weight in load_file(tmp_path / "whole" / "model.safetensors").values())
    assert "NaN" not in (tmp_path / "whole" / "metrics.jsonl").read_text("utf-8")


@pytest.mark.usefixtures("_spoilt")
def test_the_setting_says_how_many(weft, config, labelled):
    words = ["train", "classify", labelled, "model.hidden=8", "model.embedding=8"]
    words += [f"train.{name}={value}" for name, value in TRAIN.items()]
    gone = weft(*words, "train.skip_bad=0", "--out", "strict")
    assert gone.code == 1
    assert "the loss is not finite at update" in gone.err
    assert "training examples" in gone.err
    kept = weft(*words, "--out", "kept")
    assert kept.code == 0
    assert "was left out: the loss is not finite" in kept.err


def test_the_stream_gives_the_largest_batch_and_its_parts(config):
    setup = set_up(prepare(read_config(config())))
    stream = setup.learner.stream
    largest = stream.largest()
    assert size_of(largest) == max(len(rows) * int(setup.plan.sides[rows].max()) for rows in setup.plan.epoch(0))
    first, second = largest.origin.halves()
    assert first.count + second.count == largest.count
    assert [*first.origin.rows, *second.origin.rows] == [*largest.origin.rows]
    torch.testing.assert_close(torch.cat([first.labels, second.labels]), largest.labels)
