"""Runs of every task with small models of any kind, trained for two updates and then moved far from their start."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from tests.conftest import write_captions
from tests.export.c.models import sentence

import weft
from weft.run import Run

FEATURES = 3


def trained(
    task: str,
    folder: Path,
    model: dict[str, Any],
    *,
    text: Any = None,
    data: Any = None,
    features: bool = False,
    cells: Mapping[str, Any] | None = None,
    std: float = 0.3,
) -> Run:
    """A run of a task; `features` are vectors in the place of texts."""
    name, content, settings = written(task, folder, features=features)
    if content:
        (folder / name).write_text(content)
    config = {"task": task, "data": {"train": str(folder / name), **settings, **(data or {})}, "model": model}
    config |= {"text": text} if text else {}
    config |= {"decode": {"max_length": 12}} if task in ("translate", "lm", "caption") else {}
    network = task != "embed" and model.get("kind") not in ("bag", "ngram", "hmm")
    train = {"steps": 2, "threads": 1, "batch_tokens": 256} if network else {"threads": 1}
    run = weft.train({**config, "train": train}, out=folder / "run", quiet=True, cells=cells)
    if network:
        torch.manual_seed(0)
        with torch.no_grad():
            for parameter in run.model.parameters():
                if parameter.is_floating_point():
                    parameter.add_(std * torch.randn_like(parameter))
    return run


def written(task: str, folder: Path, *, features: bool) -> tuple[str, str, dict[str, Any]]:
    """The name and the content of a training file, and settings of [data]."""
    draw = random.Random(0)
    rows = [sentence(draw) for _ in range(60)]
    if task == "caption" and not features:
        return write_captions(folder, 12).rsplit("/", 1)[-1], "", {}
    if task == "forecast":
        days = [f"2020-{1 + day // 28:02d}-{1 + day % 28:02d}" for day in range(200)]
        values = [f"{20 + day % 7 + day / 10},{day % 5},{day % 3}" for day in range(200)]
        lines = [f"{day},{value}" for day, value in zip(days, values, strict=True)]
        sizes = {"history": 12, "horizon": 4, "season": 7, "target": "value", "time": "date"}
        return "train.csv", "\n".join(["date,value,rain,holiday", *lines]) + "\n", sizes
    if features:
        made = [_vectors(task, draw) for _ in rows]
        return "train.jsonl", "".join(f"{json.dumps(row)}\n" for row in made), {"features": "x"}
    if task == "tag":
        labels = ["O", "B-PER", "I-PER", "B-LOC"]
        return (
            "train.txt",
            "\n".join("".join(f"{word} {draw.choice(labels)}\n" for word in row.split()) for row in rows),
            {},
        )
    if task in ("lm", "mask", "embed"):
        return "train.txt", "\n".join(rows) + "\n", {}
    answers = {
        "translate": lambda: sentence(draw),
        "regress": lambda: f"{9 * draw.random():.3f}",
        "classify": lambda: draw.choice(["good", "bad", "so so"]),
    }
    return "train.tsv", "".join(f"{row}\t{answers[task]()}\n" for row in rows), {}


def _vectors(task: str, draw: random.Random) -> dict[str, Any]:
    steps = [[draw.gauss(3, 2) for _ in range(FEATURES)] for _ in range(draw.randint(1, 9))]
    answer: dict[str, Any] = {
        "classify": {"label": draw.choice("abc")},
        "regress": {"label": draw.random()},
        "tag": {"tags": [draw.choice("XYZ") for _ in steps]},
        "caption": {"caption": sentence(draw)},
    }[task]
    return {"x": steps, **answer}
