"""Folders of every format that weft has written since 0.1 load, and answer as they did when they were made.

`2/TASK` are of format 2, the one of weft 0.1; make.py made them. An older format has no folder of its own: forecasts of
format 1 are those of format 2 without two of their statistics.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.run.formats.make import ANSWERS, FILES, HERE, answers

import weft
from weft.catalog import TASKS
from weft.config import migrations
from weft.documents import FORMAT_VERSION
from weft.errors import RunError
from weft.run.folder.manifest import verify

FOLDERS = sorted(path for version in HERE.glob("[0-9]*") for path in version.iterdir())


def close(found: Any, expected: Any) -> bool:
    """Whether two plain values are the same, up to the rounding of other processors."""
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(close(found[name], expected[name]) for name in expected)
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(close, found, expected))
    if isinstance(expected, float) and isinstance(found, int | float):
        return abs(found - expected) <= 1e-4 * max(1.0, abs(expected))
    return bool(found == expected)


def plain(value: Any) -> Any:
    return json.loads(json.dumps(value))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: "/".join(path.parts[-2:]))
def test_a_folder_answers_as_when_it_was_made(folder: Path) -> None:
    verify(folder)
    expected = json.loads((folder / ANSWERS).read_text(encoding="utf-8"))
    assert close(plain(answers(folder.name, weft.load(folder))), expected)


def test_every_task_has_a_folder_and_they_are_small() -> None:
    assert {folder.name for folder in FOLDERS} == set(FILES) == set(TASKS)
    assert sum(path.stat().st_size for path in HERE.rglob("*") if path.is_file() and path.suffix != ".pyc") < 150_000


def test_other_answers_would_be_noticed() -> None:
    assert close({"a": [1.0, "x"]}, {"a": [1.00001, "x"]})
    for other in ({"a": [1.01, "x"]}, {"a": [1.0, "y"]}, {"a": [1.0]}, {"b": [1.0, "x"]}):
        assert not close(other, {"a": [1.0, "x"]})


@pytest.fixture
def old(tmp_path: Path) -> Callable[..., Path]:
    """old(version, without=…) -> a forecast as a folder of an older format."""

    def make(version: int | None, *, without: tuple[str, ...] = ("until", "floor")) -> Path:
        folder = tmp_path / f"old{version}"
        shutil.copytree(HERE / "2" / "forecast", folder)
        statistics = json.loads((folder / "statistics.json").read_text(encoding="utf-8"))
        config = json.loads((folder / "config.json").read_text(encoding="utf-8")) | {"format_version": version}
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8")) | {"format_version": version}
        changed = {
            "statistics.json": {name: value for name, value in statistics.items() if name not in without},
            "config.json": config if version is not None else without_version(config),
        }
        for name, value in changed.items():
            (folder / name).write_text(json.dumps(value), encoding="utf-8")
            manifest["sha256"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        manifest = manifest if version is not None else without_version(manifest)
        (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
        return folder

    return make


def without_version(tree: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in tree.items() if name != "format_version"}


@pytest.mark.parametrize("version", [None, 0, 1])
def test_an_older_forecast_is_migrated_when_it_is_read(old: Callable[..., Path], version: int | None) -> None:
    folder = old(version)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    expected = json.loads((HERE / "2" / "forecast" / ANSWERS).read_text(encoding="utf-8"))
    assert close(plain(answers("forecast", weft.load(folder))), expected)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before, "its files stay as they are"


def test_the_same_folder_as_the_current_format_is_refused(old: Callable[..., Path]) -> None:
    with pytest.raises(RunError, match=r"statistics\.json: has not the statistics of target and error and until"):
        weft.load(old(FORMAT_VERSION))


def test_a_damaged_old_folder_is_still_refused(old: Callable[..., Path]) -> None:
    folder = old(1)
    (folder / "statistics.json").write_text("{}", encoding="utf-8")
    with pytest.raises(RunError, match=r"statistics\.json: is damaged: its hash"):
        weft.load(folder)
    with pytest.raises(RunError, match=r"statistics\.json"):
        weft.load(old(0, without=("target", "until")))


def test_a_newer_format_names_the_weft_to_install(old: Callable[..., Path]) -> None:
    folder = old(1)
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    manifest |= {"format_version": FORMAT_VERSION + 1, "weft_version": "99.1.0"}
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    with pytest.raises(RunError, match=r"was written by weft 99\.1\.0 in format .*pip install 'weft>=99\.1\.0'"):
        weft.load(folder)


def test_every_older_format_has_a_step_and_all_of_them_run() -> None:
    assert list(migrations.STEPS) == list(range(FORMAT_VERSION))
    assert all(step.__doc__ for step in migrations.STEPS.values())


def test_the_steps_run_in_order_from_that_of_the_folder_on(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[int] = []
    steps = {number: lambda documents, number=number: ran.append(number) for number in range(4)}
    monkeypatch.setattr(migrations, "STEPS", steps)
    monkeypatch.setattr(migrations, "FORMAT_VERSION", 4)
    migrations.migrate({}, 1)
    assert ran == [1, 2, 3]
    migrations.migrate({}, 4)
    assert ran == [1, 2, 3]
