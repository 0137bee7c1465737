"""Twenty lines are learned with nothing set but the size of the network."""

from __future__ import annotations

import random

import pytest

import weft

SIZES = {"embedding": 32, "hidden": 48}


@pytest.fixture
def words():
    """Twenty words that have nothing in common."""
    draw = random.Random(0)
    return ["".join(draw.choice("abcdefghijklmnop") for _ in range(draw.randint(4, 8))) for _ in range(20)]


@pytest.mark.parametrize(
    ("task", "model", "metric"),
    [
        pytest.param("translate", {"encoder": SIZES, "decoder": SIZES}, "exact", marks=pytest.mark.slow),
        ("classify", SIZES, "accuracy"),
    ],
)
def test_twenty_lines_are_learned(task, model, metric, words, tmp_path):
    answers = {"translate": words[7:] + words[:7], "classify": ["even", "odd"] * 10}[task]
    path = tmp_path / "few.tsv"
    path.write_text("".join(f"{word}\t{answer}\n" for word, answer in zip(words, answers, strict=True)))
    tree = {"task": task, "data": {"train": str(path)}, "model": model}
    run = weft.train(tree | ({"decode": {"beam": 1}} if task == "translate" else {}), out=tmp_path / "run", quiet=True)
    assert run.evaluate(str(path)).metrics[metric] >= 0.9, "all but one are trained on"
