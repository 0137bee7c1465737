"""Whoever reads a run while it is saved, or is left with it after a kill, has the old model or the new one, whole."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

import weft
from weft.errors import Fault
from weft.run.folder.files import LABELS, WEIGHTS, write_file, write_json
from weft.run.folder.manifest import open_run, read_run, verify
from weft.run.folder.save import ModelFiles, save_run
from weft.run.folder.weights import open_tensors


class Crash(BaseException):
    """The process is gone: nothing after this runs."""


def files_of(size: int, *, labels: tuple[str, ...] = ("a", "b")) -> Any:
    """The plain files of a run that has a size and labels."""
    config = SimpleNamespace(task="lm", tree=lambda: {"size": size})
    tokenizer = SimpleNamespace(to_json=lambda: '{"a": "tokenizer"}')
    codec = SimpleNamespace(tokenizers={"": tokenizer}, labels=labels, statistics={})
    return ModelFiles(config, codec, torch.nn.Linear(1, 1))  # type: ignore[arg-type]


def weights(value: float) -> dict[str, Tensor]:
    return {"weight": torch.full((64, 64), value)}


def held(folder: Path) -> float:
    """The number in the weights, read as `weft.load` does."""

    def read(files: Any) -> float:
        with open_tensors(files, WEIGHTS) as stored:
            [value] = stored.read("weight").unique().tolist()
        return float(value)

    return read_run(folder, read)


def test_a_reader_always_has_a_whole_model(tmp_path: Path) -> None:
    files, over, seen = files_of(1), threading.Event(), list[float]()
    save_run(tmp_path, files, weights(0.0))

    def keep_reading() -> None:
        while not over.is_set():
            seen.append(held(tmp_path))

    reader = threading.Thread(target=keep_reading)
    reader.start()
    for value in range(1, 60):
        save_run(tmp_path, files, weights(float(value)))
        if not reader.is_alive():
            break
    over.set()
    reader.join()
    assert held(tmp_path) == 59.0, "the reader raised before the last one was saved"
    assert len(set(seen)) > 5
    assert seen == sorted(seen)


@pytest.mark.parametrize("late", [False, True])
def test_a_kill_at_any_call_leaves_the_old_model_or_the_new(late: bool, tmp_path: Path, monkeypatch: Any) -> None:
    """Every call that changes the disk is, in turn, the one at which the process dies, before or after its effect."""
    outcomes = []
    for fatal in range(100):
        folder = tmp_path / str(fatal)
        folder.mkdir()
        save_run(folder, files_of(1), weights(1.0))
        calls = 0
        with monkeypatch.context() as patch:

            def dying(original: Any, fatal: int = fatal) -> Any:
                def call(*arguments: Any, **options: Any) -> Any:
                    nonlocal calls
                    calls += 1
                    if calls - 1 > fatal or (calls - 1 == fatal and not late):
                        raise Crash
                    result = original(*arguments, **options)
                    if calls - 1 == fatal:
                        raise Crash
                    return result

                return call

            for owner, name in ((Path, "replace"), (Path, "unlink"), (Path, "write_bytes"), (os, "fsync")):
                patch.setattr(owner, name, dying(getattr(owner, name)))
            try:
                save_run(folder, files_of(1), weights(2.0))
                over = True
            except Crash:
                over = False
        verify(folder)
        outcomes.append(held(folder))
        save_run(folder, files_of(1), weights(3.0))
        assert held(folder) == 3.0, "what a kill left can be replaced"
        assert open_run(folder).hashes[WEIGHTS] == open_run(folder).hashes[WEIGHTS][:1]
        if over:
            break
    else:
        pytest.fail("saving never came to its end")
    assert sorted(outcomes) == outcomes
    assert outcomes.count(1.0) > 4
    assert outcomes.count(2.0) > 2


def test_other_settings_are_never_seen_with_the_weights_of_the_run_before(tmp_path: Path, monkeypatch: Any) -> None:
    save_run(tmp_path, files_of(1), weights(1.0))
    monkeypatch.setattr("weft.run.folder.save.write_weights", lambda *_: (_ for _ in ()).throw(Crash))
    with pytest.raises(Crash):
        save_run(tmp_path, files_of(2, labels=()), weights(2.0))
    assert not (tmp_path / "manifest.json").exists()
    monkeypatch.undo()
    save_run(tmp_path, files_of(2, labels=()), weights(2.0))
    verify(tmp_path)
    assert held(tmp_path) == 2.0
    assert not (tmp_path / LABELS).exists(), "which the new run does not have"


def test_a_damaged_folder_is_written_anew(tmp_path: Path) -> None:
    save_run(tmp_path, files_of(1), weights(1.0))
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")
    save_run(tmp_path, files_of(1), weights(2.0))
    verify(tmp_path)
    write_json(tmp_path / "manifest.json", {"format_version": 1, "sha256": {"config.json": 7}})
    save_run(tmp_path, files_of(1), weights(3.0))
    verify(tmp_path)


def test_all_files_of_a_run_have_the_mode_that_new_files_have(texts: str, tmp_path: Path) -> None:
    config = {"task": "lm", "data": {"train": texts}, "model": {"hidden": 4, "embedding": 4}, "train": {"steps": 1}}
    weft.train(config, out=tmp_path / "run", quiet=True)
    (tmp_path / "new").touch()
    modes = {path.name: path.stat().st_mode for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert modes == dict.fromkeys(modes, (tmp_path / "new").stat().st_mode)
    assert load_file(tmp_path / "run" / WEIGHTS)


def test_what_cannot_be_written_says_whether_a_file_was_there(tmp_path: Path) -> None:
    def fail(temporary: Path) -> None:
        raise OSError(27, "File too large")

    with pytest.raises(Fault, match=r"File too large \(nothing of it is left; make room"):
        write_file(tmp_path / "file", fail)
    (tmp_path / "file").write_text("old")
    with pytest.raises(Fault, match=r"File too large \(the file that was there is untouched"):
        write_file(tmp_path / "file", fail)
