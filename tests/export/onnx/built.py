"""Runs of every task with random weights, as if they had been trained, exported and answered without weft's models."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("onnxruntime", reason="needs weft[onnx]")
pytest.importorskip("onnx", reason="needs weft[onnx]")

from weft.catalog import TASKS
from weft.config import validate
from weft.data import BadLines
from weft.export.graph import program_of
from weft.export.onnx.folder import write_folder
from weft.export.onnx.runner import Runner
from weft.run import Run

WORDS = [
    "the",
    "small",
    "cat",
    "dog",
    "sees",
    "a",
    "big",
    "bird",
    "and",
    "sleeps",
    "under",
    "some",
    "old",
    "trees",
    "near",
    "home",
]
SERIES = 60


def lines(count: int = 40, length: int = 6) -> list[str]:
    draw = torch.Generator().manual_seed(0)
    found = []
    for _ in range(count):
        size = int(torch.randint(1, length + 1, (), generator=draw))
        picks = torch.randint(len(WORDS), (size,), generator=draw).tolist()
        found.append(" ".join(WORDS[pick] for pick in picks))
    return found


def _rows() -> dict[str, tuple[str, str]]:
    """The name and the content of the training file of each task."""
    texts = lines()
    pairs = "".join(f"{one}\t{' '.join(reversed(one.split()))}\n" for one in texts)
    tagged = "".join(
        "".join(f"{word}\t{'BIO'[len(word) % 3] + ('-X' if len(word) % 3 < 2 else '')}\n" for word in one.split())
        + "\n"
        for one in texts
    )
    series = "".join(f"2020-{1 + n // 28:02d}-{1 + n % 28:02d},{20 + n % 7 + n / 10}\n" for n in range(SERIES))
    return {
        "lm": ("train.txt", "\n".join(texts) + "\n"),
        "mask": ("train.txt", "\n".join(texts) + "\n"),
        "embed": ("train.txt", "\n".join(texts) + "\n"),
        "translate": ("train.tsv", pairs),
        "classify": ("train.tsv", "".join(f"{one}\t{'abc'[n % 3]}\n" for n, one in enumerate(texts))),
        "regress": ("train.tsv", "".join(f"{one}\t{n / 7}\n" for n, one in enumerate(texts))),
        "tag": ("train.tsv", tagged),
        "forecast": ("train.csv", "date,value\n" + series),
        "caption": ("train.jsonl", "".join(_described(number, one) for number, one in enumerate(texts))),
    }


def _described(number: int, text: str) -> str:
    """A row of feature vectors with a caption."""
    vectors = [[number % 5, -place / 3, 1.0] for place in range(1 + number % 4)]
    return json.dumps({"vectors": vectors, "caption": text}) + "\n"


def build_run(task: str, folder: Path, *, std: float = 0.3, content: str | None = None, **sections: Any) -> Run:
    """A run with random weights."""
    name, usual = _rows()[task]
    path = folder / name
    path.write_text(usual if content is None else content)
    data = {"train": str(path), **sections.pop("data", {})}
    if task == "tag":
        data = {"column": 1, **data}
    if task == "caption":
        data = {"features": "vectors", **data}
    if task == "forecast":
        data = {"history": 12, "horizon": 4, "season": 7, "target": ["value"], "time": "date", **data}
    cells = sections.pop("cells", None)
    tree = {"task": task, "data": data, **sections}
    kind = TASKS[task]
    if task == "forecast":
        settings = validate(tree, cells=cells, keep_unread=True).data
        found, _ = kind.find_settings(list(kind.read(str(path), settings, BadLines())), settings)
        tree["data"] = found | data
    config = validate(tree, cells=cells, keep_unread=True)
    records = list(kind.read(str(path), config.data, BadLines()))
    codec = kind.learn(records, config.text)
    torch.manual_seed(0)
    model: Any = kind.network(config, codec).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.is_floating_point():
                parameter.add_(std * torch.randn_like(parameter))
    return Run(folder, config, kind(codec, config.data), model)


def exported(run: Run, folder: Path, *, quantized: bool = False) -> Runner:
    """The runner of a run."""
    folder.mkdir(exist_ok=True)
    write_folder(run, program_of(run), folder, quantized=quantized)
    return Runner(folder, threads=1)


def assert_like(ours: Any, theirs: Any, *, place: str = "", tolerance: float = 1e-4) -> None:
    """Answers are equal but for the rounding of numbers."""
    if isinstance(ours, Mapping):
        assert list(ours) == list(theirs), place
        for name in ours:
            assert_like(ours[name], theirs[name], place=f"{place}.{name}", tolerance=tolerance)
    elif isinstance(ours, list | tuple):
        assert len(ours) == len(theirs), place
        for one, other in zip(ours, theirs, strict=True):
            assert_like(one, other, place=place, tolerance=tolerance)
    elif isinstance(ours, float):
        assert theirs == pytest.approx(ours, rel=tolerance, abs=tolerance), place
    else:
        assert ours == theirs, place
