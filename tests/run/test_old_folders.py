"""Run folders as the first releases wrote them load and go on; `old_folders.tar.gz` has two, with their data.

`stopped` is a classification that was killed after update 3 of 4, `finished` a language model of 2 updates.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

import weft

SMALL = {"embedding": 2, "hidden": 3}
TRAIN = {"steps": 4, "batch_tokens": 32, "evaluate_every": 1, "checkpoint_every": 2, "device": "cpu"}
CONFIGS: dict[str, dict[str, Any]] = {
    "stopped": {"task": "classify", "data": {"train": "reviews.tsv", "valid": "reviews.tsv"}},
    "finished": {"task": "lm", "data": {"train": "texts.txt", "valid": "texts.txt"}},
}


@pytest.fixture
def unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with tarfile.open(Path(__file__).with_name("old_folders.tar.gz")) as archive:
        archive.extractall(tmp_path, filter="data")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_an_old_folder_loads(unpacked: Path) -> None:
    assert weft.load("stopped").predict(["the cat sleeps"])[0].label in ("calm", "fast")
    assert weft.load("finished").report["steps"] == 2


@pytest.mark.parametrize("name", CONFIGS)
def test_an_old_folder_goes_on(name: str, unpacked: Path) -> None:
    config = CONFIGS[name] | {"model": SMALL, "train": TRAIN}
    before = (unpacked / name / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    run = weft.train(config, out=name, quiet=True, resume=True)
    assert run.report["steps"] == 4
    lines = (unpacked / name / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    kept = next(number for number, line in enumerate(lines) if json.loads(line)["step"] > 2)
    assert lines[:kept] == before[:kept]
    assert kept >= 3, "the journal of the updates before the checkpoint stays"
    assert [json.loads(line)["step"] for line in lines[kept:]] == [3, 4]
