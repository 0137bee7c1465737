"""A hub on the loopback address, and a small run to send to it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import huggingface_hub
import pytest
from tests.run.hub.stand_in import TOKEN, StandIn, running

import weft as package
from weft.run import Run

Files = dict[str, bytes]


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[StandIn]:
    """The hub, known to huggingface_hub as if by HF_ENDPOINT, with a token as if by HF_TOKEN; an empty cache."""
    (tmp_path / "cache").mkdir(mode=0o700)
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setattr("huggingface_hub.file_download.time.sleep", lambda seconds: None)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_XET", True)  # the stand-in has no such storage
    with running() as state:
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", state.url)
        monkeypatch.setattr(huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", URL.format(state.url))
        monkeypatch.chdir(tmp_path)
        yield state


URL = "{}/{{repo_id}}/resolve/{{revision}}/{{filename}}"


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A classifier of two updates."""
    folder = tmp_path_factory.mktemp("trained")
    lines = [
        f"the {word} is here {number}\t{label}"
        for word, label in (("cat", "animal"), ("red", "colour"))
        for number in range(20)
    ]
    (folder / "words.tsv").write_text("\n".join(["text\tlabel", *lines]) + "\n", encoding="utf-8")
    config = {"task": "classify", "data": {"train": str(folder / "words.tsv")}, "text": {"kind": "word"}}
    model = {"kind": "rnn", "embedding": 4, "hidden": 4, "dropout": 0.0}
    return package.train(config | {"model": model, "train": {"steps": 2}}, out=folder / "run", quiet=True)


@pytest.fixture
def run(trained: Run, tmp_path: Path) -> Path:
    """The folder of a run of one's own."""
    shutil.copytree(trained.folder, tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def contents(trained: Run) -> Callable[[], Files]:
    """The files of the run by their names, as a repository has them."""

    def read() -> Files:
        return {path.name: path.read_bytes() for path in trained.folder.iterdir() if path.is_file()}

    return read
