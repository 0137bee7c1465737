"""A folder of runs that all tests of the studio share: a translator, classifiers, and folders that are no good runs."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.conftest import NUMBERS, write_lines

import weft
from weft.studio import create_app

TOKEN = "a token of these tests"
ADDRESS = "http://127.0.0.1:8000"

SMALL = {"kind": "rnn", "embedding": 8, "hidden": 8}


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files that the runs are trained on."""
    folder, draw = tmp_path_factory.mktemp("studio") / "data", random.Random(0)
    folder.mkdir()
    rows = [[draw.choice(list(NUMBERS)) for _ in range(draw.randint(2, 3))] for _ in range(60)]
    write_lines(
        folder / "pairs.tsv", [f"{' '.join(row)}\t{' '.join(NUMBERS[word] for word in row[::-1])}" for row in rows]
    )
    kinds = {"colour": ["red", "green", "blue"], "animal": ["cat", "dog", "cow"]}
    texts = [(label, draw.choice(words)) for _ in range(40) for label, words in kinds.items()]
    write_lines(folder / "labels.tsv", ["text\tlabel", *(f"the {word} here\t{label}" for label, word in texts)])
    return folder


@pytest.fixture(scope="session")
def runs(data: Path) -> Path:
    """A translator, two classifiers in a folder of their own, and three folders that cannot be used."""
    folder = data.parent / "runs"
    base = {
        "task": "translate",
        "data": {"train": str(data / "pairs.tsv")},
        "model": {"encoder": SMALL, "decoder": SMALL},
    }
    weft.train(base | {"train": {"steps": 20, "rate": 0.01}}, out=folder / "numbers")
    for name, seed in (("first", 0), ("second", 1)):
        classifier = {"task": "classify", "seed": seed, "data": {"train": str(data / "labels.tsv")}}
        weft.train(classifier | {"train": {"epochs": 1 + seed}}, out=folder / "words" / name)
    (folder / "cut").mkdir()
    (folder / "cut" / "manifest.json").write_text('{"files": ')
    (folder / "cut" / "config.json").write_text('{"task": "tran')
    (folder / "begun").mkdir()
    (folder / "begun" / "metrics.jsonl").write_text('{"step": 1, "loss": 2.5, "seconds": 0.1}\n')
    outside = data.parent / "outside"
    outside.mkdir()
    (outside / "manifest.json").write_text("{}")
    (folder / "link").symlink_to(outside)
    return folder


@pytest.fixture(scope="session")
def client(runs: Path, data: Path):
    """The studio on the runs and their data."""
    with TestClient(create_app([runs, data], token=TOKEN), base_url=ADDRESS) as found:
        yield found
