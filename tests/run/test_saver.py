"""Training goes on while a thread writes; nothing that was handed over is lost, and what fails is told."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

import weft
from weft.errors import Fault
from weft.run.folder.checkpoint import Checkpoints
from weft.run.folder.save import Saver
from weft.training import Journal, Update

TRAIN = {"steps": 9, "batch_tokens": 64, "evaluate_every": 3, "checkpoint_every": 3}


def full(*_: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_handing_over_does_not_wait_and_leaving_does(tmp_path: Path) -> None:
    begun, go_on, written = threading.Event(), threading.Event(), list[str]()

    def slow(folder: Path) -> None:
        begun.set()
        assert go_on.wait(10)
        written.append("slow")

    with Saver(tmp_path) as saver:
        saver.submit("model", slow)
        assert begun.wait(10), "while this thread goes on"
        saver.submit("checkpoint", lambda folder: written.append("next"))
        assert written == []
        go_on.set()
    assert written == ["slow", "next"], "all is written when the block is left, in order"


def test_of_a_kind_one_is_under_way(tmp_path: Path) -> None:
    written: list[int] = []
    with Saver(tmp_path) as saver:
        for number in range(5):
            saver.submit("model", lambda folder, number=number: written.append(number))  # type: ignore[misc]
            saver.wait("model")
            assert written == list(range(number + 1))


def test_leaving_by_an_exception_finishes_what_was_handed_over(tmp_path: Path) -> None:
    written: list[str] = []

    def leave() -> None:
        with Saver(tmp_path) as saver:
            saver.submit("model", lambda folder: written.append("model"))
            raise KeyError

    with pytest.raises(KeyError):
        leave()
    assert written == ["model"]


def test_a_full_disk_is_told_and_nothing_is_moved(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    saver = Saver(tmp_path / "run")
    saver.submit("checkpoint", full)
    saver.wait("checkpoint")
    assert saver.failed
    with pytest.raises(Fault, match="No space left on device"):
        saver.flush()
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_mistake_of_ours_is_raised_where_training_is(tmp_path: Path) -> None:
    def wrong(folder: Path) -> None:
        raise ZeroDivisionError

    saver = Saver(tmp_path)
    saver.submit("checkpoint", wrong)
    with pytest.raises(ZeroDivisionError):
        saver.flush()


@pytest.fixture
def at_update(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Have something happen when the journal hears of an update: at_update(7, action)."""
    write = Journal.write

    def arrange(number: int, action: Any) -> None:
        def heard(journal: Journal, event: Any) -> None:
            if isinstance(event, Update) and event.number == number:
                monkeypatch.setattr(Journal, "write", write)
                action()
            write(journal, event)

        monkeypatch.setattr(Journal, "write", heard)

    return arrange


@pytest.fixture
def train(labelled: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("weft.training.tensorboard.find_spec", lambda name: None)  # it has a thread of its own
    small = {"embedding": 8, "hidden": 8}
    config = {"task": "classify", "data": {"train": labelled, "valid": labelled}, "model": small, "train": TRAIN}

    def start(name: str) -> weft.Run:
        return weft.train(config, out=tmp_path / name, quiet=True, resume=True)

    return start


@pytest.mark.parametrize("happens", ["renamed", "deleted", "replaced by a file", "replaced by a folder"])
def test_a_folder_that_goes_away_ends_training_and_what_was_learned_is_elsewhere(
    happens: str, train: Any, at_update: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "run"

    def act() -> None:
        if happens == "deleted":
            shutil.rmtree(folder)
        else:
            folder.rename(tmp_path / "moved")
        if happens == "replaced by a file":
            folder.touch()
        if happens == "replaced by a folder":
            folder.mkdir()

    at_update(2, act)  # nothing is being written then
    with pytest.raises(Fault) as told:
        train("run")
    assert "was renamed, removed or replaced while the model was trained" in str(told.value)
    assert f"go on with --out {tmp_path}/run-rescued --resume" in str(told.value)
    assert "\n" not in str(told.value)
    if happens == "replaced by a folder":
        assert not list(folder.iterdir()), "it is somebody else's"
    assert train("run-rescued").report["steps"] == 9


def test_a_folder_that_becomes_read_only_ends_training_and_what_was_learned_is_elsewhere(
    train: Any, at_update: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, mkdir, folder = train("whole"), Path.mkdir, tmp_path / "run"

    def refused(path: Path, *arguments: Any, **options: Any) -> None:
        if path.is_relative_to(folder):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        mkdir(path, *arguments, **options)

    at_update(2, lambda: monkeypatch.setattr(Path, "mkdir", refused))
    with pytest.raises(Fault) as told:
        train("run")
    assert os.strerror(errno.EROFS) in str(told.value)
    assert "run-rescued --resume" in str(told.value)
    assert not Checkpoints(folder).steps()
    assert all(map(torch.equal, train("run-rescued").model.state_dict().values(), whole.model.state_dict().values()))
    journals = [(tmp_path / name / "metrics.jsonl").read_text(encoding="utf-8") for name in ("whole", "run-rescued")]
    assert [journal.count("\n") for journal in journals] == [journals[0].count("\n")] * 2


def test_where_nothing_can_be_written_beside_it_the_temporary_folder_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, temporary = tmp_path / "above" / "run", tmp_path / "temporary"
    folder.mkdir(parents=True)
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    saver = Saver(folder)
    shutil.rmtree(folder.parent)
    saver.submit("model", lambda folder: (folder / "model").touch())
    with pytest.raises(Fault, match=rf"what was learned is in {temporary}/weft-run-rescued-\w+:"):
        saver.flush()
    [rescued] = temporary.iterdir()
    assert (rescued / "model").exists()


def test_a_folder_that_is_lost_at_the_end_leaves_the_model_elsewhere(
    train: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = import_module("weft.run.train")
    save_report = training.save_report

    def lost(folder: Path, *arguments: Any) -> None:
        if folder.name == "run":
            folder.rename(tmp_path / "moved")
        save_report(folder, *arguments)

    monkeypatch.setattr(training, "save_report", lost)
    with pytest.raises(Fault, match=r"run-rescued: the model is whole"):
        train("run")
    assert weft.load(tmp_path / "run-rescued").report["steps"] == 9


def test_a_journal_that_cannot_be_written_ends_training_with_a_checkpoint(
    train: Any, at_update: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = train("whole")

    def fails(journal: Journal, *_: Any, **__: Any) -> None:
        raise Fault("cannot be written: Input/output error", where=str(journal.path))

    with monkeypatch.context() as patch:
        at_update(4, lambda: patch.setattr(Journal, "_line", fails))
        patch.setattr("weft.training.recorder.EVERY_UPDATES", 1)
        with pytest.raises(Fault, match=r"metrics.jsonl: cannot be written"):
            train("run")
    assert Checkpoints(tmp_path / "run").steps() == [3, 4]
    assert all(map(torch.equal, train("run").model.state_dict().values(), whole.model.state_dict().values()))
