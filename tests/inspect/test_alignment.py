"""The alignment of a translation as plain text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

import weft as library
from weft.errors import ConfigError
from weft.inspect import Alignment, align

SMALL = {"model.encoder.hidden": 8, "model.decoder.hidden": 8, "train.steps": 2, "text.kind": "word"}
ROWS = [(f"a {word}", f"{word} b") for word in ("x", "y", "z") for _ in range(6)]


def test_weights_are_shades_under_the_source_written_downwards() -> None:
    found = Alignment("K AE", ("c", "at", "<eos>"), ("K", "AE"), ((1.0, 0.0, 0.0), (0.1, 0.5, 0.4)))
    assert found.lines() == [
        "        <",
        "        e",
        "        o",
        "      a s",
        "    c t >",
        " K  █",
        "AE    ▒ ░",
    ]
    assert found.tree()["target"] == ["K", "AE"]


@pytest.mark.covers("M4")
def test_a_run_shows_where_it_looked(tmp_path: Path, weft) -> None:  # type: ignore[no-untyped-def]
    run = library.train({"task": "translate", "data": {"train": ROWS}}, SMALL, out=tmp_path / "run")
    found = align(run, "a x", max_length=3)
    assert found.source == ("a", "x", "<eos>")
    assert len(found.weights) == len(found.target) <= 3
    assert all(sum(row) == pytest.approx(1, abs=1e-5) for row in found.weights)
    shown = weft("inspect", "alignment", str(run.folder), "a x")
    assert shown.code == 0, shown.err
    told = json.loads(weft("inspect", "alignment", str(run.folder), "a x", "--json").out)
    assert told["source"] == ["a", "x", "<eos>"]
    assert shown.out.splitlines()[0] == told["text"]


def test_a_model_without_attention_has_no_alignment(tmp_path: Path) -> None:
    settings = {**SMALL, "model.decoder.context": "first"}
    run = library.train({"task": "translate", "data": {"train": ROWS}}, settings, out=tmp_path / "run")
    with pytest.raises(ConfigError, match="has no attention"):
        align(run, "a x")


@pytest.mark.covers("M5")
def test_attention_over_a_picture_is_a_square_for_each_word(tmp_path: Path, captioned: str, weft) -> None:  # type: ignore[no-untyped-def]
    found = Alignment(
        "a cat", ("0,0", "0,1", "1,0", "1,1"), ("a", "cat"), ((1, 0, 0, 0), (0.5, 0.0, 0.25, 0.5)), (2, 2)
    )
    assert found.lines() == ["  a  ██", "", "cat  ██", "     ▒▒██"]
    model = {"encoder": {"channels": [8]}, "decoder": {"hidden": 8, "embedding": 8}}
    config = {"task": "caption", "data": {"train": captioned}, "model": model, "train": {"steps": 2}}
    run = library.train(config, out=tmp_path / "run")
    picture = str(Path(captioned).parent / "0.png")
    assert align(run, picture, max_length=3).grid == (8, 8)
    shown = weft("inspect", "alignment", str(run.folder), picture, "--out", "attention.png")
    assert shown.code == 0, shown.err
    with Image.open("attention.png") as drawn:
        red, green, _ = drawn.convert("RGB").getpixel((8 + 84, 8 + 26 + 84))
        assert drawn.width > 168
        assert red >= green
    told = weft("inspect", "alignment", str(run.folder), picture, "--json", "--out", "attention.svg")
    assert told.code == 2
    assert "PNG" in told.err
