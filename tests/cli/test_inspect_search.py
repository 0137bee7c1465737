"""weft inspect beam, ranks and neighbours: in the terminal, as JSON, as files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import weft as library

ROWS = [(f"a {word}", f"{word} b") for word in ("x", "y", "z") for _ in range(6)]
SMALL = {"hidden": 8, "embedding": 8}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    tree = {"task": "translate", "data": {"train": ROWS, "valid": ROWS}, "model": {"encoder": SMALL, "decoder": SMALL}}
    settings = {"text.kind": "word", "train.steps": 2}
    return str(library.train(tree, settings, out=tmp_path_factory.mktemp("runs") / "run", quiet=True).folder)


@pytest.mark.covers("I4", "I5", "I8")
def test_each_view_is_printed(folder: str, weft: Callable[..., Any]) -> None:
    options = ("--beam", "3", "--max-length", "4", "--forbid", "z", "--forbid", "y b")
    shown = weft("inspect", "beam", folder, "a x", *options)
    assert shown.code == 0, shown.err
    told = json.loads(weft("inspect", "beam", folder, "a x", *options, "--json").out)
    Path("input.txt").write_text("a x\n", encoding="utf-8")
    assert told["text"] == weft("predict", folder, "input.txt", *options).out.removesuffix("\n")
    assert f"#1 {told['n_best'][0]['score']:10.3f}" in shown.out
    assert "z" not in {node["text"] for node in told["nodes"] if node["state"] == "kept"}

    ranked = json.loads(weft("inspect", "ranks", folder, "a x", "--target", "x b", "--json").out)
    Path("pairs.tsv").write_text("a x\tx b\n", encoding="utf-8")
    scored = json.loads(weft("score", folder, "pairs.tsv", "--json").out.splitlines()[0])
    assert [one["rank"] for one in ranked["tokens"]] == scored["ranks"]
    assert [one["log_probability"] for one in ranked["tokens"]] == scored["log_probabilities"]
    assert "x b<eos>" in weft("inspect", "ranks", folder, "a x", "--target", "x b").out.replace(" <eos>", "<eos>")

    near = json.loads(weft("inspect", "neighbours", folder, "x", "-n", "2", "--json").out)
    assert len(near["neighbours"]) == 2
    assert weft("inspect", "neighbours", folder).code == 0


def test_mistakes_are_one_line(folder: str, weft: Callable[..., Any]) -> None:
    unknown = weft("inspect", "neighbours", folder, "xylophone")
    assert (unknown.code, unknown.err.count("\n")) == (2, 1)
    assert '"xylophone" has no vector' in unknown.err
    for words in (
        ("beam", folder, "a x", "--beam", "0"),
        ("ranks", folder, "a x", "--colour", "red"),
        ("neighbours", folder, "x", "--part", "middle"),
        ("beam", folder, "a x", "-o", "tree.txt"),
    ):
        outcome = weft("inspect", *words)
        assert (outcome.code, outcome.err.count("\n")) == (2, 1), outcome.err
    sampled = weft("inspect", "beam", folder, "a x", "--sample")
    assert sampled.code == 0
    assert "no beam" in sampled.out


@pytest.mark.usefixtures("extras")
def test_files_are_written(folder: str, weft: Callable[..., Any]) -> None:
    for view, text in (("beam", "a x"), ("ranks", "a x"), ("neighbours", "x")):
        outcome = weft("inspect", view, folder, text, "-o", f"{view}.svg", "--dark")
        assert outcome.code == 0, outcome.err
        assert "<svg" in Path(f"{view}.svg").read_text(encoding="utf-8")
