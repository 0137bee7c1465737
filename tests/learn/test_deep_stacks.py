"""Deep stacks learn to copy: post-norm with a warm-up, pre-norm and ReZero without one (docs/transformers.md)."""

from __future__ import annotations

import random

import pytest

import weft


@pytest.fixture(scope="module")
def words():
    draw = random.Random(0)
    lines = sorted({"".join(draw.choice("abcdefgh") for _ in range(4)) for _ in range(4000)})
    draw.shuffle(lines)
    return lines


@pytest.mark.parametrize(
    ("norm", "layers", "train"),
    [
        pytest.param("post", 4, {"steps": 200, "rate": 3e-3, "warmup": 100}, id="post"),
        pytest.param("pre", 6, {"steps": 150, "rate": 3e-3, "warmup": 0}, id="pre"),
        pytest.param("rezero", 8, {"steps": 180, "rate": 6e-3, "warmup": 0}, id="rezero"),
        pytest.param("post", 12, {"steps": 300, "rate": 3e-3, "warmup": 150}, id="post-deep", marks=pytest.mark.slow),
        pytest.param("pre", 12, {"steps": 150, "rate": 3e-3, "warmup": 0}, id="pre-deep", marks=pytest.mark.slow),
        pytest.param("rezero", 24, {"steps": 130, "rate": 6e-3, "warmup": 0}, id="rezero-deep", marks=pytest.mark.slow),
    ],
)
def test_a_deep_stack_learns_to_copy(tmp_path, words, norm, layers, train):
    files = {"train": words[200:], "valid": words[:200]}
    for part, lines in files.items():
        (tmp_path / part).write_text("".join(f"{word}={word}\n" for word in lines), encoding="utf-8")
    run = weft.train(
        {
            "task": "lm",
            "data": {part: str(tmp_path / part) for part in files},
            "text": {"kind": "char", "size": 300},
            "model": {"kind": "transformer", "width": 32, "layers": layers, "norm": norm, "dropout": 0.0},
            "train": train
            | {"batch_tokens": 1024, "schedule": "constant", "weight_decay": 0.0, "evaluate_every": train["steps"]},
        },
        out=tmp_path / "run",
        quiet=True,
    )
    answers = run.predict([f"{word}=" for word in words[:100]], sample=False)
    right = sum(str(answer) == f"{word}={word}" for answer, word in zip(answers, words, strict=False))
    assert right > 70
