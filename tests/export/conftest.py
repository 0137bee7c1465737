"""Small transformers with random weights, norms and biases included."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from weft.catalog import TASKS
from weft.config import validate
from weft.data import BadLines
from weft.run import Run

SIDE = {"kind": "transformer", "width": 16, "heads": 2, "layers": 2, "max_positions": 64}

Tree = dict[str, Any]
Build = Callable[..., Run]


def build(task: str, data: str, folder: Path, **sections: Tree) -> Run:
    """A run as if it had been trained on that file."""
    config = validate({"task": task, "data": {"train": data}, **sections}, keep_unread=True)
    kind = TASKS[task]
    codec = kind.learn(list(kind.read(data, config.data, BadLines())), config.text)
    torch.manual_seed(0)
    model = kind.build(config.model, codec).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return Run(folder, config, kind(codec, config.data), model)


@pytest.fixture
def translator(pairs: str, tmp_path: Path) -> Build:
    """translator(encoder=…, decoder=…, text=…, decode=…, **both) -> a run; `both` are settings of both sides."""

    def make(
        *,
        encoder: Tree | None = None,
        decoder: Tree | None = None,
        text: Tree | None = None,
        decode: Tree | None = None,
        **both: Any,
    ) -> Run:
        model = {"encoder": SIDE | both | (encoder or {}), "decoder": SIDE | both | (decoder or {})}
        words = {"kind": "word"} | (text or {})
        return build("translate", pairs, tmp_path, model=model, text=words, decode=decode or {})

    return make


@pytest.fixture
def language_model(texts: str, tmp_path: Path) -> Build:
    """language_model(text=…, decode=…, **settings of the model) -> a run."""

    def make(*, text: Tree | None = None, decode: Tree | None = None, **model: Any) -> Run:
        search = decode or {"max_length": 12}
        return build("lm", texts, tmp_path, model=SIDE | model, text=text or {}, decode=search)

    return make


@pytest.fixture
def prefix_translator(pairs: str, tmp_path: Path) -> Build:
    """prefix_translator(decode=…, text=…, **settings of the decoder) -> a run of one decoder over source and target."""

    def make(*, text: Tree | None = None, decode: Tree | None = None, **decoder: Any) -> Run:
        model = {"kind": "prefix", "decoder": SIDE | decoder}
        words = {"kind": "word", "shared": True} | (text or {})
        return build("translate", pairs, tmp_path, model=model, text=words, decode=decode or {"max_length": 12})

    return make


def in_float64(run: Run) -> Run:
    """The same run, which computes in double precision."""
    wide = copy.copy(run)
    wide.model = copy.deepcopy(run.model).double()
    return wide
