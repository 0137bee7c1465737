"""One line of 50,000 words among short ones: every task trains, evaluates and predicts under each policy."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft.config import read_config
from weft.data import Batches, PackedBatches
from weft.errors import DataError
from weft.run.prepare import Prepared, prepare

WORDS = 50_000
LONGEST = 40
VOCABULARY = ("the", "cat", "sees", "a", "dog", "and", "runs")

SMALL: dict[str, dict[str, Any]] = {
    "lm": {"model.embedding": 8, "model.hidden": 8},
    "classify": {"model.embedding": 8, "model.hidden": 8},
    "regress": {"model.embedding": 8, "model.hidden": 8},
    "tag": {"model.embedding": 8, "model.hidden": 8, "model.characters": 4},
    "translate": {
        "model.encoder.embedding": 8,
        "model.encoder.hidden": 8,
        "model.decoder.embedding": 8,
        "model.decoder.hidden": 8,
    },
}
POLICIES = [
    *((task, policy) for task in ("lm", "tag") for policy in ("truncate", "split", "drop")),
    *((task, policy) for task in ("classify", "regress", "translate") for policy in ("truncate", "drop")),
]


def sentence(length: int, seed: int) -> list[str]:
    return random.Random(seed).choices(VOCABULARY, k=length)


def lm(words: list[str]) -> str:
    return " ".join(words) + "\n"


def classify(words: list[str]) -> str:
    return f"{' '.join(words)}\t{'even' if len(words) % 2 == 0 else 'odd'}\n"


def regress(words: list[str]) -> str:
    return f"{' '.join(words)}\t{len(words) % 7}\n"


def tag(words: list[str]) -> str:
    return "".join(f"{word} {'LONG' if len(word) > 3 else 'SHORT'}\n" for word in words) + "\n"


def translate(words: list[str]) -> str:
    return f"{' '.join(words)}\t{' '.join(word.upper() for word in words)}\n"


WRITE: dict[str, Callable[[list[str]], str]] = {
    "lm": lm,
    "classify": classify,
    "regress": regress,
    "tag": tag,
    "translate": translate,
}


def settings(task: str, folder: Path, policy: str) -> dict[str, Any]:
    """A file with the long line in the middle to train on, and one to validate with."""
    lines = [WRITE[task](sentence(WORDS if number == 30 else 4 + number % 5, number)) for number in range(60)]
    train, valid = folder / f"{task}.tsv", folder / "valid.tsv"
    train.write_text("".join(lines), encoding="utf-8")
    if task == "translate":
        # Every word of a target looks at every word of its source: with both this long, that is minutes of work.
        lines[30] = f"{' '.join(sentence(WORDS, 30))}\tTHE CAT\n"
    valid.write_text("".join(lines), encoding="utf-8")
    return {
        "data.train": str(train),
        "data.valid": str(valid),
        "data.max_length": LONGEST,
        "data.overlong": policy,
        "text.kind": "word",
        "train.steps": 3,
        "train.batch_tokens": 200,
        "train.device": "cpu",
        **({"decode.max_length": 5, "decode.min_length": 1} if task in ("lm", "translate") else {}),
        **SMALL[task],
    }


def ready(task: str, folder: Path, policy: str) -> Prepared:
    return prepare(read_config({"task": task}, settings(task, folder, policy)))


@pytest.mark.parametrize(("task", "policy"), POLICIES)
def test_training_goes_through(task: str, policy: str, tmp_path: Path) -> None:
    run = weft.train({"task": task}, settings(task, tmp_path, policy), out=tmp_path / "run", quiet=True)
    assert run.report["steps"] == 3
    assert np.isfinite(run.report["valid"]["loss"]), "measured on the long line too"


@pytest.mark.parametrize("task", WRITE)
def test_evaluation_and_prediction_go_through(task: str, tmp_path: Path) -> None:
    chosen = settings(task, tmp_path, "drop")
    run = weft.train({"task": task}, chosen | {"train.steps": 1}, out=tmp_path / "run", quiet=True)
    found = run.evaluate(chosen["data.valid"])
    assert found.metrics["loss"] == pytest.approx(run.report["valid"]["loss"], rel=1e-4)
    # A prompt is followed token by token, so for a language model a long one takes its time.
    words = sentence(500 if task == "lm" else WORDS, 2)
    short, long = run.predict([" ".join(sentence(5, 1)), " ".join(words)])
    assert str(short) == str(run.predict([" ".join(sentence(5, 1))])[0]), "whatever stands beside it"
    assert str(long)
    if task == "tag":
        assert len(long.record()["tags"]) == WORDS


@pytest.mark.parametrize("task", WRITE)
def test_error_names_the_line_the_length_and_the_cure(task: str, tmp_path: Path) -> None:
    # A tagged sentence begins where its first word stands, after the 30 before it and the lines between them.
    line = 1 + sum(4 + number % 5 + 1 for number in range(30)) if task == "tag" else 31
    with pytest.raises(
        DataError, match=rf"{task}\.tsv:{line}: 50,00\d tokens, more than data\.max_length = 40 \(raise"
    ):
        ready(task, tmp_path, "error")


@pytest.mark.parametrize(("task", "policy"), POLICIES)
def test_a_training_batch_costs_no_more_than_its_budget(task: str, policy: str, tmp_path: Path) -> None:
    """In padded positions of either side, whatever the policy made of the long line."""
    prepared = ready(task, tmp_path, policy)
    sides = prepared.train.lengths.reshape(len(prepared.train), -1)
    assert sides.max() <= LONGEST + 1
    for kind in (Batches, PackedBatches):
        for rows in kind(prepared.train.lengths, batch_tokens=200).epoch(0):
            assert len(rows) * sides[rows].max() <= 200 if kind is Batches else sides[rows].sum(0).max() <= 256


@pytest.mark.parametrize("task", ["classify", "tag", "translate"])
def test_a_row_beyond_the_budget_is_evaluated_alone(task: str, tmp_path: Path) -> None:
    """With others it would be padded to its length times their number."""
    prepared = ready(task, tmp_path, "drop")
    first, *rest = Batches(prepared.valid.lengths, batch_tokens=4096).in_order()
    assert first.tolist() == [30]
    sides = prepared.valid.lengths.reshape(len(prepared.valid), -1)
    assert sides[30].max() >= WORDS
    assert all(len(rows) * sides[rows].max() <= 4096 for rows in rest)


@pytest.mark.parametrize("task", ["lm", "tag"])
def test_a_split_keeps_every_word(task: str, tmp_path: Path) -> None:
    split, dropped = ready(task, tmp_path, "split"), ready(task, tmp_path, "drop")
    lost = split.train.lengths.sum() - dropped.train.lengths.sum()
    assert lost == WORDS + (1 if task == "lm" else 0), "and the end of the line, which a language model predicts"
