"""A run that was broken off and resumed is the run that was not; what may not be resumed is refused."""

from __future__ import annotations

import json
import os
import shlex
import signal
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

import weft as package
from weft.errors import ConfigError, RunError
from weft.run import prepare as preparing
from weft.run.folder.lock import lock_folder
from weft.run.prepare import prepare
from weft.run.resume import keep_defaults, resume_run
from weft.training import Journal, Update

SMALL = {"embedding": 8, "hidden": 8, "dropout": 0.2}
WIDE = {"kind": "transformer", "width": 8, "heads": 2, "layers": 1, "dropout": 0.2}
TRAIN = {"steps": 11, "batch_tokens": 64, "evaluate_every": 4, "checkpoint_every": 3}
CASES = {
    "classify": {"task": "classify", "model": SMALL},
    "tag": {"task": "tag", "model": SMALL | {"characters": 4, "crf": True}, "train": {"optimizer": "sgd", "rate": 0.1}},
    "caption": {"task": "caption", "model": {"encoder": {"channels": [8], "shift": 0.2}, "decoder": SMALL}},
    "plain": {"task": "classify", "model": SMALL, "train": {"optimizer": "sgd", "momentum": 0.0, "rate": 0.1}},
    "translate": {"task": "translate", "model": {"encoder": SMALL, "decoder": SMALL}, "train": {"average": 2}},
    "transformer": {"task": "lm", "model": WIDE, "train": {"accumulate": 3, "optimizer": "radam"}},
    "plateau": {"task": "lm", "model": SMALL, "train": {"schedule": "plateau", "plateau_patience": 1, "rate": 0.3}},
    "sampling": {"task": "lm", "model": SMALL, "train": {"teacher_forcing": {"kind": "linear", "k": 20.0}}},
    "drawn": {
        "task": "lm",
        "model": SMALL | {"initial": "random", "initial_std": 0.5},
        "data": {"unit": "stream"},
        "train": {"truncate": 5},
    },
    "forecast": {
        "task": "forecast",
        "model": SMALL,
        "data": {"horizon": 7, "valid": None},
        "train": {"batch_tokens": 350},
    },
    "pieces": {"task": "lm", "model": SMALL, "data": {"unit": "stream", "max_length": 8}},
    "carried": {"task": "lm", "model": SMALL, "data": {"unit": "stream"}, "train": {"truncate": 5}},
}
DATA = {
    "caption": "captioned",
    "classify": "labelled",
    "tag": "tagged",
    "translate": "pairs",
    "lm": "texts",
    "forecast": "series",
}


class Crash(Exception):
    """The process came to an unforeseen end."""


class Heard(NamedTuple):
    """The number of an update, the rows that its batches were made of, and their loss."""

    number: int
    rows: list[list[int]]
    loss: float


@pytest.fixture
def heard(monkeypatch):
    """All updates that any journal hears of."""
    write, steps = Journal.write, []

    def hear(journal, event):
        if isinstance(event, Update):
            steps.append(Heard(event.number, [origin.rows.tolist() for origin in event.origins], event.loss))
        write(journal, event)

    monkeypatch.setattr(Journal, "write", hear)
    return steps


@pytest.fixture
def at_update(monkeypatch):
    """Have something happen when the journal hears of an update: at_update(7, action)."""
    write = Journal.write

    def arrange(number, action):
        def heard(journal, event):
            write(journal, event)
            if isinstance(event, Update) and event.number == number:
                monkeypatch.setattr(Journal, "write", write)
                action()

        monkeypatch.setattr(Journal, "write", heard)

    return arrange


def crash():
    raise Crash


@pytest.fixture
def config(request):
    """A configuration by its name among the cases, with data of its task."""

    def make(name="classify", **train):
        case = CASES[name]
        path = request.getfixturevalue(DATA[case["task"]])
        data = {"train": path, "valid": path} | case.get("data", {})
        return case | {"data": data, "train": TRAIN | case.get("train", {}) | train}

    return make


def train(config, out, **options):
    return package.train(config, out=out, quiet=True, **options)


def outcome(folder):
    """Weights, report and journal, times aside."""
    times = ("seconds", "tokens_per_second")
    lines = [(folder / "report.json").read_text("utf-8"), *(folder / "metrics.jsonl").read_text("utf-8").splitlines()]
    tables = [{name: value for name, value in json.loads(line).items() if name not in times} for line in lines]
    return (folder / "model.safetensors").read_bytes(), tables


@pytest.mark.covers("L7")
@pytest.mark.parametrize("name", CASES)
def test_a_broken_run_ends_as_the_unbroken_one(name, config, at_update, tmp_path):
    train(config(name), tmp_path / "whole")
    for number in (2, 8, 10):  # before any checkpoint, between two, between validation and checkpoint
        at_update(number, crash)
        with pytest.raises(Crash):
            train(config(name), tmp_path / "broken", resume=True)
    train(config(name), tmp_path / "broken", resume=True)
    assert outcome(tmp_path / "broken") == outcome(tmp_path / "whole")
    assert [path.name for path in (tmp_path / "broken" / "checkpoints").iterdir()] == ["11"]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU with CUDA")
@pytest.mark.parametrize("name", ["classify", "translate", "transformer"])
def test_on_a_gpu_a_broken_run_reads_the_same_data_and_learns_the_same(name, heard, config, at_update, tmp_path):
    train(config(name, device="cuda"), tmp_path / "whole")
    whole = {step.number: step for step in heard}
    heard.clear()
    at_update(8, crash)
    with pytest.raises(Crash):
        train(config(name, device="cuda"), tmp_path / "broken", resume=True)
    train(config(name, device="cuda"), tmp_path / "broken", resume=True)
    assert {step.number for step in heard} == whole.keys()
    for step in heard:
        assert step.rows == whole[step.number].rows
        assert step.loss == pytest.approx(whole[step.number].loss, rel=0.01)


@pytest.fixture
def heard_signals():
    """The tests may have been started by nohup, which ignores SIGHUP for all of them."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_a_signal_saves_and_says_how_to_go_on(number, code, weft, labelled, at_update, tmp_path, heard_signals):
    words = ["train", "classify", labelled, *(f"train.{name}={value}" for name, value in TRAIN.items())]
    words += ["model.hidden=8", "model.embedding=8"]
    assert weft(*words, "--out", "whole").code == 0
    at_update(5, lambda: os.kill(os.getpid(), number))
    left = weft(*words, "--out", "broken", "--quiet")
    assert left.code == code
    [line] = left.err.splitlines()
    assert line.startswith(f"stopped by {number.name} after 5 updates")
    assert package.load("broken").predict(["the cat"])
    command = shlex.split(line.split("resume with: ")[1])
    assert weft(*command[1:]).code == 0
    assert outcome(tmp_path / "broken") == outcome(tmp_path / "whole")


def test_a_run_that_was_stopped_before_its_first_validation_can_be_used(config, at_update, tmp_path):
    train(config(), tmp_path / "whole")
    at_update(1, lambda: os.kill(os.getpid(), signal.SIGTERM))
    stopped = train(config(), tmp_path / "run")
    assert stopped.predict(["the cat"])
    train(config(), tmp_path / "run", resume=True)
    assert outcome(tmp_path / "run") == outcome(tmp_path / "whole")


def test_a_finished_run_says_so_and_a_longer_one_goes_on(weft, labelled, tmp_path):
    words = ["train", "classify", labelled, "model.hidden=8", "model.embedding=8", "--out", "run", "--resume"]
    assert weft(*words, "train.steps=4").code == 0
    before = outcome(tmp_path / "run")
    again = weft(*words, "train.steps=4", "train.threads=1")
    assert again.code == 0
    assert "was finished before (all updates done)" in again.err
    assert outcome(tmp_path / "run") == before
    fewer = weft(*words, "train.steps=3")
    assert (fewer.code, "3 updates are fewer than the 4" in fewer.err) == (2, True)
    more = weft(*words, "train.steps=6")
    assert more.code == 0
    assert "goes on after update 4" in more.err
    assert "6 updates instead of 4" in more.err
    assert package.load("run").report["steps"] == 6


def test_a_run_goes_on_on_another_device_with_the_defaults_it_began_with(texts, at_update, monkeypatch, tmp_path):
    settings = {"evaluate_every": 3, "batch_tokens": 64}  # small ones, so that a few epochs are enough updates
    tree = {"task": "lm", "data": {"train": texts, "valid": texts}, "model": SMALL, "train": settings}
    monkeypatch.setattr(preparing, "device_type", lambda name: "cuda")
    at_update(7, crash)
    with pytest.raises(Crash):
        train(tree, tmp_path / "run")
    begun = prepare(tree).config.train
    monkeypatch.setattr(preparing, "device_type", lambda name: "cpu")
    assert prepare(tree).config.train != begun
    kept = prepare(keep_defaults(tree, tmp_path / "run"))
    assert kept.config.train == begun
    assert resume_run(tmp_path / "run", kept).checkpoint
    longer = tree | {"train": tree["train"] | {"steps": 5000}}
    assert prepare(keep_defaults(longer, tmp_path / "run")).config.train.steps == 5000


def test_other_settings_are_refused_and_listed(config, at_update, tmp_path):
    at_update(7, crash)
    with pytest.raises(Crash):
        train(config(), tmp_path / "run")
    with pytest.raises(ConfigError) as refused:
        train(config(rate=0.5, optimizer="sgd", threads=1), tmp_path / "run", resume=True)
    assert 'train.optimizer was "adamw" and is "sgd"' in str(refused.value)
    assert "train.rate was 0.002 and is 0.5" in str(refused.value)
    assert "threads" not in str(refused.value)


def test_other_data_is_refused(config, labelled, at_update, tmp_path):
    at_update(7, crash)
    with pytest.raises(Crash):
        train(config(), tmp_path / "run")
    text = Path(labelled).read_text(encoding="utf-8")
    Path(labelled).write_text(text.replace("fox", "owl"), encoding="utf-8")
    with pytest.raises(RunError, match="was trained on other data"):
        train(config(), tmp_path / "run", resume=True)


def test_only_a_run_is_resumed(config, at_update, tmp_path):
    with pytest.raises(RunError, match=r"needs the folder of the run \(add --out DIR\)"):
        train(config(), None, resume=True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "README.md").write_text("not a run", encoding="utf-8")
    with pytest.raises(RunError, match="is not empty and no run"):
        train(config(), tmp_path / "mine", resume=True)
    at_update(7, crash)
    with pytest.raises(Crash):
        train(config(), tmp_path / "run", resume=True)
    with pytest.raises(RunError, match=r"is not empty \(go on with --resume"):
        train(config(), tmp_path / "run")
    with lock_folder(tmp_path / "run"), pytest.raises(RunError, match="another process is training here"):
        train(config(), tmp_path / "run", resume=True)
    assert (tmp_path / "mine" / "README.md").read_text(encoding="utf-8") == "not a run"


def test_a_damaged_checkpoint_is_told_and_the_one_before_is_used(weft, config, at_update, tmp_path, capsys):
    train(config(), tmp_path / "whole")
    at_update(8, crash)
    with pytest.raises(Crash):
        train(config(), tmp_path / "run")
    assert sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir()) == ["3", "6"]
    os.truncate(tmp_path / "run" / "checkpoints" / "6" / "state.safetensors", 100)
    package.train(config(), out=tmp_path / "run", resume=True)
    said = capsys.readouterr().err
    assert "checkpoint 6 is left out" in said
    assert "goes on after update 3" in said
    assert outcome(tmp_path / "run") == outcome(tmp_path / "whole")


@pytest.mark.parametrize(
    "place",
    [
        "os.fsync",
        "weft.run.train_state.write_weights",
        "weft.run.folder.save.write_weights",
        "pathlib.Path.write_bytes",
    ],
)
def test_a_full_disk_ends_the_run_clearly_and_it_goes_on_later(place, weft, labelled, at_update, tmp_path, monkeypatch):
    words = ["train", "classify", labelled, *(f"train.{name}={value}" for name, value in TRAIN.items())]
    words += ["model.hidden=8", "model.embedding=8", "--resume"]
    assert weft(*words, "--out", "whole").code == 0

    def full(*_, **__):
        raise OSError(28, os.strerror(28))

    with monkeypatch.context() as patch:
        at_update(7, lambda: patch.setattr(place, full))
        left = weft(*words, "--out", "broken")
    assert left.code == 1
    assert "Traceback" not in left.err
    assert "No space left on device" in left.err.splitlines()[-1]
    assert weft(*words, "--out", "broken").code == 0
    assert outcome(tmp_path / "broken") == outcome(tmp_path / "whole")


def test_a_signal_while_the_report_is_made_leaves_a_finished_run(weft, labelled, monkeypatch, tmp_path):
    training = import_module("weft.run.train")
    score = training.score

    def interrupted(*words):
        os.kill(os.getpid(), signal.SIGTERM)
        return score(*words)

    monkeypatch.setattr(training, "score", interrupted)
    words = ["train", "classify", labelled, "model.hidden=8", "model.embedding=8", "train.steps=2", "--out", "run"]
    left = weft(*words)
    assert left.code == 0, left.err
    assert "Next: weft predict run" in left.err
    assert package.load("run").report["ended"] == "all updates done"
