"""Small runs, and rows for them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import weft as package

SMALL = {"embedding": 8, "hidden": 8}


def write_rows(path: Path, rows: Iterable[Any]) -> str:
    """A file of JSON lines; a string is a line as it is."""
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def read_rows(path: str | Path) -> list[Any]:
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="session")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> str:
    rows = [
        (f"the {word} {number}", label) for number in range(9) for word, label in (("red", "colour"), ("cow", "animal"))
    ]
    config = {"task": "classify", "data": {"train": rows}, "model": SMALL, "train": {"steps": 2, "threads": 1}}
    return str(package.train(config, out=tmp_path_factory.mktemp("runs") / "classify", quiet=True).folder)


@pytest.fixture(scope="session")
def translator(tmp_path_factory: pytest.TempPathFactory) -> str:
    rows = [(f"one two {number}", f"{number} deux un") for number in range(30)]
    model = {"encoder": SMALL, "decoder": SMALL}
    config = {"task": "translate", "data": {"train": rows}, "model": model, "train": {"steps": 2, "threads": 1}}
    return str(package.train(config, out=tmp_path_factory.mktemp("runs") / "translate", quiet=True).folder)


@pytest.fixture
def texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Rows in in.jsonl in the current folder, some with an empty text."""
    monkeypatch.chdir(tmp_path)
    words = ("red", "cow", "red cow", "", "the")
    rows = [{"id": number, "text": words[number % 5], "score": number / 4} for number in range(53)]
    write_rows(tmp_path / "in.jsonl", rows)
    return rows
