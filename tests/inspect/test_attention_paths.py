"""Attention that is shown is attention that was computed: for every kind of model, weights times values are the context
of its layer, and the recorded pass gives the numbers of the fast one, in training and in search."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import weft as library
from weft.inspect.lesson import loss_of, prepare_lesson
from weft.nn.attention import AttentionCall, record_attention
from weft.run import Run

CLOSE = {"atol": 1e-5, "rtol": 1e-5}
PAIRS = [(f"the {word} car", f"la voiture {mot}") for word, mot in (("red", "rouge"), ("clean", "propre"))] * 6
TEXTS = [
    (f"a {word} {noun}", label) for word, label in (("good", "yes"), ("bad", "no")) for noun in ("car", "door", "hat")
]
TAGGED = [[("a", "D"), ("good", "A"), ("car", "N")], [("the", "D"), ("door", "N")]] * 6
LINES = ["a good car", "the door"] * 6
SMALL = {"kind": "transformer", "width": 16, "heads": 2, "layers": 2, "dropout": 0.0}
RECURRENT = {"hidden": 12, "dropout": 0.0}
ONE_WAY = RECURRENT | {"bidirectional": False}
ENCODER = {"encoder": ONE_WAY}

MODELS: dict[str, tuple[str, Any, dict[str, Any], str]] = {
    f"{context} {score}": ("translate", PAIRS, {**ENCODER, "decoder": RECURRENT | given}, "the red car")
    for context in ("after", "attention")
    for score in ("dot", "scaled_dot", "bilinear", "additive", "concat", "low_rank")
    for given in [{"context": context, "attention": score}]
}
MODELS |= {
    "hard": ("translate", PAIRS, {**ENCODER, "decoder": {**RECURRENT, "attention_hard": True}}, "the red car"),
    "post": ("translate", PAIRS, {"encoder": SMALL, "decoder": SMALL}, "the red car"),
    "pre": ("translate", PAIRS, {side: {**SMALL, "norm": "pre"} for side in ("encoder", "decoder")}, "the red car"),
    "rezero": ("translate", PAIRS, {s: {**SMALL, "norm": "rezero"} for s in ("encoder", "decoder")}, "the red car"),
    "prefix": ("translate", PAIRS, {"kind": "prefix", "decoder": SMALL}, "the red car"),
    "language": ("lm", LINES, {**SMALL, "positions": "rotary"}, "a good car"),
    "masked": ("mask", LINES, SMALL, "a [MASK] car"),
    "tagger": ("tag", TAGGED, SMALL, "the good car"),
    "classifier": ("classify", TEXTS, SMALL, "a good car"),
    "pooling": ("classify", TEXTS, {"kind": "rnn", "pooling": "attention", **RECURRENT}, "a good car"),
}


def train(task: str, rows: Any, model: dict[str, Any], folder: Path) -> Run:
    data = {"train": rows, "valid": rows[:4] if isinstance(rows, list) else rows}
    tree: dict[str, Any] = {"task": task, "data": data, "model": model, "train": {"steps": 2}}
    tree |= {"text": {"kind": "word", "min_count": 1}} if task != "caption" else {}
    tree |= {"decode": {"beam": 3, "max_length": 5}} if task in ("translate", "caption") else {}
    return library.train(tree, out=folder, quiet=True)


@torch.no_grad()
def assert_explained(calls: list[AttentionCall]) -> None:
    """In every row of every call the weights of each head times the values are the context."""
    assert calls
    for call in calls:
        for row in range(call.query.size(0)):
            heads = [
                call.weights(head=head, row=row) @ call.value[_row(call.value, row), head] for head in range(call.heads)
            ]
            assert_close(torch.stack(heads), call.context[_row(call.context, row)], **CLOSE)


def _row(x: Tensor, row: int) -> int:
    return min(row, x.size(0) - 1)


def assert_same_as_fast(run: Run, text: str) -> None:
    taught = prepare_lesson(run, text)
    with torch.no_grad():
        fast = loss_of(run, taught)
        with record_attention() as calls:
            plain = loss_of(run, taught)
    assert_explained(calls)
    assert_close(plain, fast, **CLOSE)
    options = {"sample": False, "beam": 2, "max_length": 4} if run.task.continues else {}
    answer = run.predict(text, **options)
    with record_attention() as calls:
        recorded = run.predict(text, **options)
    assert_explained(calls)
    assert str(recorded) == str(answer)
    for one, other in zip(getattr(recorded, "candidates", ()), getattr(answer, "candidates", ()), strict=True):
        assert one.score == pytest.approx(other.score, abs=1e-5)


@pytest.mark.covers("I3")
@pytest.mark.parametrize("name", MODELS)
def test_weights_times_values_are_what_the_fast_path_computes(name: str, tmp_path: Path) -> None:
    task, rows, model, text = MODELS[name]
    assert_same_as_fast(train(task, rows, model, tmp_path / "run"), text)


def test_a_captioner(tmp_path: Path, captioned: str) -> None:
    model = {"encoder": {"channels": [8]}, "decoder": {"hidden": 8, "embedding": 8}}
    assert_same_as_fast(train("caption", captioned, model, tmp_path / "run"), str(Path(captioned).parent / "0.png"))
