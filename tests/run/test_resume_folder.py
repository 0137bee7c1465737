"""What --resume makes of a folder that others have touched: links, strays, cut journals, moved and changed data."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import weft
from weft.errors import ConfigError, Fault, RunError
from weft.run.folder.checkpoint import Checkpoints
from weft.run.folder.manifest import hash_file, write_manifest
from weft.run.prepare import prepare
from weft.run.resume import _old_fingerprint, fingerprint, resume_run
from weft.training import Journal

TEXT = "".join(f"the {'cat' if n % 2 else 'dog'} sleeps {n} times\n" for n in range(20))


TREE = {
    "task": "lm",
    "data": {"train": "texts.txt", "valid": "texts.txt"},
    "text": {"kind": "char"},
    "model": {"embedding": 4, "hidden": 4},
}
TRAIN = {"steps": 4, "batch_tokens": 64, "evaluate_every": 2, "checkpoint_every": 2}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished run and its data."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "texts.txt").write_text(TEXT, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        weft.train(TREE | {"train": TRAIN}, out="run", quiet=True)
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, in the folder where the command is given."""
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "run"


@pytest.fixture
def tree(run: Path) -> dict[str, Any]:
    """The configuration that it began with, for two more updates."""
    return TREE | {"train": TRAIN | {"steps": 6}}


def resume(tree: dict[str, Any]) -> Any:
    return resume_run(Path("run"), prepare(tree))


def test_checkpoints_that_are_a_link_are_refused(run: Path, tree: dict[str, Any]) -> None:
    (run / "checkpoints").rename("elsewhere")
    Path("elsewhere/.7.tmp").mkdir()
    (run / "checkpoints").symlink_to(Path("elsewhere").absolute())
    with pytest.raises(RunError, match=r"checkpoints: is a link, which is never followed \(put the folder"):
        weft.train(tree, out="run", quiet=True, resume=True)
    assert Path("elsewhere/.7.tmp").is_dir(), "nothing was removed there"


def test_a_checkpoint_that_is_a_link_is_left_out(run: Path, tree: dict[str, Any]) -> None:
    shutil.copytree(run / "checkpoints" / "4", "copy")
    (run / "checkpoints" / "5").symlink_to(Path("copy").absolute())
    found = resume(tree)
    assert found.checkpoint == Path("run/checkpoints/4")
    assert "checkpoint 5 is left out: run/checkpoints/5 is a link" in found.notes[0]
    shutil.rmtree(run / "checkpoints" / "4")
    with pytest.raises(RunError, match="no checkpoint is whole: checkpoint 5"):
        resume(tree)


@pytest.mark.parametrize("name", ["state.json", "state.safetensors", "model.safetensors", "manifest.json"])
def test_a_file_of_a_checkpoint_that_is_a_link_is_not_opened(name: str, run: Path, tree: dict[str, Any]) -> None:
    path = run / "checkpoints" / "4" / name
    path.rename("secret")
    path.symlink_to(Path("secret").absolute())
    with pytest.raises(RunError, match=r"no checkpoint is whole: .*is a link"):
        resume(tree)


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_journal_that_is_no_file_is_neither_cut_nor_written(kind: str, run: Path, tree: dict[str, Any]) -> None:
    (run / "metrics.jsonl").unlink()
    Path("precious").write_text("x" * 10_000, encoding="utf-8")
    if kind == "link":
        (run / "metrics.jsonl").symlink_to(Path("precious").absolute())
    else:
        os.mkfifo(run / "metrics.jsonl")
    with pytest.raises(RunError, match=r"metrics\.jsonl: is a link or no regular file"):
        weft.train(tree, out="run", quiet=True, resume=True)
    with pytest.raises(Fault, match=r"it is a link|it is no regular file"):
        Journal(run / "metrics.jsonl", length=5)
    assert Path("precious").stat().st_size == 10_000


def test_strays_beside_checkpoints_do_not_count(run: Path, tree: dict[str, Any]) -> None:
    strays = run / "checkpoints"
    for name in ("٣", "007", "-1", "9" * 200, "8\n", "1e3", " 5", "5.0", "²", ".hidden"):
        (strays / name).mkdir()
    (strays / "7").write_text("a file", encoding="utf-8")
    (strays / ".9.tmp").write_text("a file", encoding="utf-8")
    (run / ".x.tmp").mkdir()
    (run / ".y.tmp").symlink_to("nothing")
    assert Checkpoints(run).steps() == [4]
    assert weft.train(tree, out="run", quiet=True, resume=True).report["steps"] == 6
    assert (strays / "7").read_text(encoding="utf-8") == "a file"
    assert Checkpoints(run).steps() == [6]


def test_a_stray_in_the_place_of_a_checkpoint_gives_way(tmp_path: Path) -> None:
    def fill(folder: Path) -> None:
        (folder / "a").write_text("a", encoding="utf-8")

    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, fill)
    (checkpoints.folder / "2").write_text("a file", encoding="utf-8")
    (checkpoints.folder / "3").symlink_to("1")
    for step in (2, 3):
        checkpoints.save(step, fill)
    assert sorted(path.name for path in checkpoints.folder.iterdir()) == ["2", "3"]
    assert not (checkpoints.folder / "3").is_symlink()


def test_a_journal_that_was_cut_or_removed_is_told_and_training_goes_on(
    run: Path, tree: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    lines = (run / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    (run / "metrics.jsonl").write_bytes(lines[0] + lines[1][:10])
    weft.train(tree, out="run", resume=True)
    assert "note metrics.jsonl is shorter than it was" in capsys.readouterr().err
    written = [json.loads(line) for line in (run / "metrics.jsonl").read_bytes().splitlines()]
    assert [line["step"] for line in written] == [1, 6], "half a line is not kept"
    (run / "metrics.jsonl").unlink()
    tree["train"]["steps"] = 8
    [note] = [note for note in resume(tree).notes if "metrics" in note]
    assert note == "metrics.jsonl is gone: the curves lack updates, the model lacks nothing"


def test_the_same_data_elsewhere_is_the_same_data(run: Path, tree: dict[str, Any], tmp_path: Path) -> None:
    Path("moved").mkdir()
    shutil.move("texts.txt", "moved/other.txt")
    for path in ("moved/other.txt", str(tmp_path / "moved" / "other.txt")):
        tree["data"] = {"train": path, "valid": path}
        assert resume(tree).checkpoint
    Path("moved/other.txt").write_text(TEXT.replace("19 times", "91 times"), encoding="utf-8")
    with pytest.raises(
        RunError, match=r'other data: the content of data\.train = ".*other\.txt" has changed \(put the old'
    ):
        resume(tree)


def test_the_file_that_has_changed_is_named(run: Path, tree: dict[str, Any]) -> None:
    """And no other, though its path is another one, too."""
    shutil.copy("texts.txt", "valid.txt")
    tree["data"] = {"train": str(Path("texts.txt").absolute()), "valid": "valid.txt"}
    assert resume(tree).checkpoint
    Path("valid.txt").write_text(TEXT.replace("19 times", "91 times"), encoding="utf-8")
    with pytest.raises(RunError, match=r'other data: the content of data\.valid = "valid\.txt" has changed'):
        resume(tree)


def test_a_finished_run_without_checkpoints_has_only_the_names_of_its_data_to_go_by(
    run: Path, tree: dict[str, Any]
) -> None:
    tree["train"]["steps"] = 4
    shutil.rmtree(run / "checkpoints")
    assert resume(tree).finished
    tree["data"] = {"train": "./texts.txt", "valid": "texts.txt"}
    with pytest.raises(ConfigError, match=r"data\.train was"):
        resume(tree)


def test_a_change_anywhere_in_the_data_is_noticed(tree: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.run.resume.CHUNK_TOKENS", 8)  # tokens that were all that counted once
    before = prepare(tree)
    Path("texts.txt").write_text(TEXT.replace("19 times", "91 times"), encoding="utf-8")
    after = prepare(tree)
    assert _old_fingerprint(before) == _old_fingerprint(after)
    assert fingerprint(before) != fingerprint(after)
    assert fingerprint(before) == fingerprint(before)


def test_a_checkpoint_with_the_mark_of_an_older_version_goes_on(run: Path, tree: dict[str, Any]) -> None:
    rewrite(run, data=_old_fingerprint(prepare(tree)))
    assert resume(tree).checkpoint
    Path("texts.txt").write_text(TEXT.replace("cat", "cow"), encoding="utf-8")
    with pytest.raises(RunError, match="trained on other data: the content of the files has changed"):
        resume(tree)


@pytest.mark.parametrize("version", [99, "1", 1.5, -1, True, None])
def test_a_newer_format_is_refused_and_not_left_out(version: Any, run: Path, tree: dict[str, Any]) -> None:
    rewrite(run, format_version=version)
    with pytest.raises(RunError, match="newer weft" if version == 99 else "format_version"):
        resume(tree)


def test_a_checkpoint_of_a_newer_weft_is_not_left_out_for_an_older_one(run: Path, tree: dict[str, Any]) -> None:
    shutil.copytree(run / "checkpoints" / "4", run / "checkpoints" / "5")
    manifest = run / "checkpoints" / "5" / "manifest.json"
    tree_of_it = json.loads(manifest.read_text(encoding="utf-8"))
    manifest.write_text(json.dumps(tree_of_it | {"format_version": 99}), encoding="utf-8")
    with pytest.raises(RunError, match="written by a newer weft"):
        resume(tree)


@pytest.mark.parametrize(
    "changes",
    [
        {"total": "4"},
        {"total": -1},
        {"journal": None},
        {"seconds": "soon"},
        {"config": []},
        {"data": 7},
        {"total": 1e30},
    ],
)
def test_a_head_that_weft_did_not_write_is_refused(changes: dict[str, Any], run: Path, tree: dict[str, Any]) -> None:
    rewrite(run, **changes)
    with pytest.raises(RunError, match=f'has no "{next(iter(changes))}" as weft writes it'):
        resume(tree)


def test_a_run_that_is_resumed_can_be_used_all_the_time(run: Path, tree: dict[str, Any]) -> None:
    assert resume(tree).checkpoint
    assert weft.load("run").config.task == "lm"


def rewrite(run: Path, **changes: Any) -> None:
    """Change the head of the checkpoint as somebody would who can count hashes."""
    folder = run / "checkpoints" / "4"
    state = json.loads((folder / "state.json").read_text(encoding="utf-8"))
    (folder / "state.json").write_text(json.dumps(state | changes), encoding="utf-8")
    names = [path.name for path in folder.iterdir() if path.name != "manifest.json"]
    write_manifest(folder, {name: hash_file(folder / name) for name in names})


def test_references_of_the_same_tokens_are_other_data(tmp_path: Path) -> None:
    """A word that the vocabulary lacks is one token whatever it is, but BLEU, WER and CER compare the words."""
    train, valid = tmp_path / "train.tsv", tmp_path / "valid.tsv"
    train.write_text("one two\tun deux\ntwo one\tdeux un\n" * 20, encoding="utf-8")
    tree = {"task": "translate", "data": {"train": str(train), "valid": str(valid)}, "text": {"kind": "word"}}
    marks = []
    for last in ("oiseau", "chien", "oiseau"):
        valid.write_text(f"one\tun {last}\n", encoding="utf-8")
        marks.append(fingerprint(prepare(tree)))
    first, other, again = marks
    assert first != other
    assert first == again
