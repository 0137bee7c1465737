"""A plain path never reaches the network, whatever it looks like and whatever stands in the folder."""

from __future__ import annotations

import hashlib
import json
import shutil
import socket
from pathlib import Path

import pytest

import weft as package
from weft.errors import WeftError


@pytest.fixture
def offline(monkeypatch):
    """Sockets raise; the calls that tried one are listed."""
    tried = []

    def blocked(*arguments, **options):
        tried.append(arguments)
        raise AssertionError("a socket was opened")

    for name in ("socket", "create_connection", "getaddrinfo"):
        monkeypatch.setattr(socket, name, blocked)
    return tried


@pytest.mark.parametrize("kind", ["path", "text", "absolute", "link"])
def test_folders_that_are_there(offline, run, kind, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(run)
    path = {"path": Path("run"), "text": "run", "absolute": str(run), "link": "link"}[kind]
    assert package.load(path).predict("the cat is here").label
    assert not offline


ABSENT = [
    "owner/name",
    "runs/absent",
    "absent",
    "./owner/name",
    "/owner/name",
    "owner/name@main",
    "models/owner/name",
    "hf:owner/name",
]


@pytest.mark.parametrize("path", ABSENT)
@pytest.mark.parametrize("kind", [str, Path])
def test_paths_that_are_not_there(offline, path, kind, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(WeftError, match="is not a run folder") as error:
        package.load(kind(path))
    assert ("hf://owner/name" in str(error.value)) == (path in ("owner/name", "owner/name@main", "./owner/name"))
    assert not offline


def test_an_address_that_became_a_path_is_explained(offline):
    with pytest.raises(WeftError, match=r'as a text, not as a Path: weft\.load\("hf://OWNER/NAME"\)'):
        package.load(Path("hf://owner/name"))
    assert not offline


@pytest.mark.parametrize(
    "command", ["predict", "evaluate", "score", "inspect parameters", "export", "compare", "train"]
)
def test_commands_with_a_path_that_looks_like_an_address(offline, command, weft):
    Path("in.txt").write_text("x\n", encoding="utf-8")
    more = {
        "predict": ("in.txt",),
        "evaluate": ("in.txt",),
        "score": ("in.txt",),
        "export": ("--to", "huggingface", "--out", "out"),
        "compare": ("owner/other",),
    }
    words = (*command.split(), "owner/name", *more.get(command, ()))
    if command == "train":
        words = ("train", "classify", "in.txt", "--from", "owner/name")
    outcome = weft(*words)
    assert outcome.code == 2
    assert "hf://owner/name" in outcome.err or command == "inspect parameters"
    assert not offline


def test_what_stands_in_a_folder_is_never_looked_up(offline, run):
    """Its settings name a run on the hub as where it started, and as its vectors."""
    config = json.loads((run / "config.json").read_text(encoding="utf-8"))
    config["train"]["start"] = "hf://owner/name"
    config["data"]["train"] = "hf://owner/data"
    (run / "config.json").write_text(json.dumps(config), encoding="utf-8")
    manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    manifest["sha256"]["config.json"] = hashlib.sha256((run / "config.json").read_bytes()).hexdigest()
    (run / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    assert package.load(run).predict("the cat is here").label
    shutil.rmtree(run)
    assert not offline
