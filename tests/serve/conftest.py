"""Small runs of several tasks, and servers of them in this process."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.conftest import NUMBERS, write_lines
from tests.run.formats.make import HERE

import weft
from weft.documents import FORMAT_VERSION
from weft.serve.server import create_server
from weft.serve.settings import NamedRun, RequestLimits, ServerSettings

ADDRESS = "http://127.0.0.1:8000"
SMALL = {"kind": "rnn", "embedding": 8, "hidden": 8}
WIDE = {"kind": "transformer", "width": 16, "heads": 2, "layers": 1}


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A translator, a language model and a classifier, by their names."""
    folder, draw = tmp_path_factory.mktemp("serve"), random.Random(0)
    rows = [[draw.choice(list(NUMBERS)) for _ in range(draw.randint(2, 4))] for _ in range(60)]
    pairs = write_lines(
        folder / "pairs.tsv", [f"{' '.join(row)}\t{' '.join(NUMBERS[word] for word in row[::-1])}" for row in rows]
    )
    texts = write_lines(folder / "texts.txt", [" ".join(row) for row in rows])
    kinds = {"colour": ["red", "green", "blue"], "animal": ["cat", "dog", "cow"]}
    labelled = [(label, draw.choice(words)) for _ in range(20) for label, words in kinds.items()]
    labels = write_lines(
        folder / "labels.tsv", ["text\tlabel", *(f"the {word} here\t{label}" for label, word in labelled)]
    )
    quick = {"steps": 15, "rate": 0.01}
    model = {"encoder": WIDE, "decoder": WIDE}
    weft.train({"task": "translate", "data": {"train": pairs}, "model": model, "train": quick}, out=folder / "numbers")
    weft.train({"task": "lm", "data": {"train": texts}, "model": SMALL, "train": quick}, out=folder / "words")
    weft.train({"task": "classify", "data": {"train": labels}, "train": {"epochs": 1}}, out=folder / "kinds")
    return {name: folder / name for name in ("numbers", "words", "kinds")}


def settings_of(runs: dict[str, Path], *names: str, **changes: object) -> ServerSettings:
    """The settings of a server of these runs, by default all."""
    named = tuple(NamedRun(name, runs[name]) for name in names or runs)
    limits = RequestLimits(inputs=20, characters=500, tokens=64, hypotheses=8, body_bytes=1 << 16)
    return ServerSettings(**{"runs": named, "limits": limits, "reload_seconds": 0, "threads": 1} | changes)  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def client(runs: dict[str, Path]) -> Iterator[TestClient]:
    """A server of all runs."""
    with TestClient(create_server(settings_of(runs)), base_url=ADDRESS, raise_server_exceptions=False) as found:
        yield found


@pytest.fixture(scope="session")
def all_runs(runs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run of every task, a classifier of pairs and one of feature vectors, and a language model that counts."""
    folder = tmp_path_factory.mktemp("every")
    alike = [f"a {word} {number}\ta cat\t{word == 'cat'}" for number in range(8) for word in ("cat", "dog")]
    pairs = write_lines(folder / "pairs.tsv", ["text\tsecond\tlabel", *alike])
    rows = [{"steps": [[number % 2, 1], [number, 2]], "label": "ab"[number % 2]} for number in range(16)]
    steps = write_lines(folder / "steps.jsonl", [json.dumps(row) for row in rows])
    texts = write_lines(folder / "texts.txt", [f"one two {number}" for number in range(20)])
    small, data = {"kind": "rnn", "embedding": 2, "hidden": 2}, {"train": pairs, "pair": "second"}
    counts = {"task": "lm", "data": {"train": texts}, "model": {"kind": "ngram"}}
    weft.train({"task": "classify", "data": data, "model": small, "train": {"steps": 1}}, out=folder / "pairs")
    vectors = {"task": "classify", "data": {"train": steps, "features": "steps"}, "model": {"kind": "rnn", "hidden": 2}}
    weft.train({**vectors, "train": {"steps": 1}}, out=folder / "steps")
    weft.train(counts, out=folder / "counts")
    tasks = {path.name: path for path in sorted((HERE / str(FORMAT_VERSION)).iterdir()) if path.is_dir()}
    return runs | {name: folder / name for name in ("pairs", "steps", "counts")} | tasks


@pytest.fixture(scope="session")
def client_of_all(all_runs: dict[str, Path]) -> Iterator[TestClient]:
    with TestClient(create_server(settings_of(all_runs)), base_url=ADDRESS, raise_server_exceptions=False) as found:
        yield found
