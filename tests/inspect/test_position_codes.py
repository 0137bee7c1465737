"""The view of positions: each kind by its equation, and models that have none."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import weft as library
from weft.errors import ConfigError
from weft.inspect import Nothing, PositionCodes, positions
from weft.models.transformer import TransformerDecoderConfig
from weft.nn import EncoderStack


@pytest.mark.covers("I6")
@pytest.mark.parametrize("kind", ["sinusoid", "sinusoid_concat"])
def test_sinusoids_follow_their_equation(kind: str) -> None:
    found = positions(kind, width=6, length=9)
    assert isinstance(found, PositionCodes)
    for t in range(9):
        for i in range(3):
            angle = t / 10000 ** (2 * i / 6)
            assert found.codes[t, 2 * i] == pytest.approx(math.sin(angle), abs=1e-5)
            assert found.codes[t, 2 * i + 1] == pytest.approx(math.cos(angle), abs=1e-5)
    by_hand = sum(math.cos(4 / 10000 ** (2 * i / 6)) for i in range(3)) / 3  # sin sin + cos cos of a distance of 4
    assert found.similarity[2, 6] == pytest.approx(by_hand, abs=1e-5)
    assert found.decay[4] == pytest.approx(by_hand, abs=1e-5)


def test_rotary_turns_by_angles_and_the_product_depends_on_the_distance() -> None:
    found = positions("rotary", width=8, length=12)
    assert found.codes.shape == (12, 4)
    assert found.codes[5, 1] == pytest.approx(5 / 10000 ** (2 / 8), abs=1e-5)
    wrapped = (5 + math.pi) % (2 * math.pi) - math.pi
    assert found.codes[5, 0] == pytest.approx(wrapped, abs=1e-5)
    from weft.nn.attention import Rotary

    rotary, ones = Rotary(8), torch.ones(8)
    product = rotary(ones, torch.tensor(7)) @ rotary(ones, torch.tensor(3))
    assert found.similarity[7, 3] == pytest.approx(float(product) / 8, abs=1e-5)
    assert found.decay[4] == pytest.approx(float(product) / 8, abs=1e-5)


def test_other_kinds() -> None:
    np.testing.assert_array_equal(positions("onehot", width=4, length=5).codes, np.eye(5))
    np.testing.assert_array_equal(positions("onehot", width=4, length=5).similarity, np.eye(5))
    for kind in ("learned", "joint"):
        found = positions(kind, width=4, length=5, similarity="dot")
        assert found.codes.shape == (5, 4)
        np.testing.assert_allclose(found.similarity, found.codes @ found.codes.T, atol=1e-6)
    assert isinstance(positions("none"), Nothing)
    with pytest.raises(ConfigError, match=r'did you mean "sinusoid"'):
        positions("sinusoyd")


@pytest.mark.parametrize("kind", ["learned", "rotary"])
def test_positions_of_a_run(kind: str, tmp_path: Path) -> None:
    limit = {"max_positions": 20} if kind == "learned" else {}
    model = {"kind": "transformer", "width": 16, "heads": 2, "layers": 1, "positions": kind, **limit}
    data = {"train": ["a b", "b a"] * 6, "max_length": 8}
    config = {"task": "lm", "data": data, "model": model, "train": {"steps": 1}}
    run = library.train(config, out=tmp_path / "run")
    found = positions(run, length=30)
    assert (found.kind, found.part) == (kind, "decoder")
    if kind == "learned":
        table = run.model.decoder.placed.positions.table.weight
        np.testing.assert_array_equal(found.codes, table.detach().numpy())
    else:
        assert found.codes.shape == (30, 4)
    with pytest.raises(ConfigError, match="choose decoder"):
        positions(run, part="encoder")


def test_a_model_without_positions_says_so(tmp_path: Path, weft: Any) -> None:
    assert isinstance(positions(EncoderStack(8, layers=1, heads=2, feedforward=8)), Nothing)
    config = {"task": "lm", "data": {"train": ["a b", "b a"] * 6}, "model": {"hidden": 8}, "train": {"steps": 1}}
    run = library.train(config, out=tmp_path / "run")
    assert isinstance(positions(run), Nothing)
    shown = weft("inspect", "positions", str(run.folder))
    assert shown.code == 0
    assert "encodes no positions" in shown.out


@pytest.mark.usefixtures("extras")
def test_the_command_and_its_chart(weft: Any) -> None:
    told = json.loads(weft("inspect", "positions", "sinusoid", "--width", "8", "--length", "10", "--json").out)
    assert np.shape(told["codes"]) == (10, 8)
    assert np.shape(told["similarity"]) == (10, 10)
    shown = weft("inspect", "positions", "sinusoid", "--width", "8", "--length", "10")
    assert "10 positions × 8 dimensions" in shown.out
    assert len(json.dumps(positions("sinusoid", width=768, length=2000).figure().specification)) < 2_000_000
    drawn = weft("inspect", "positions", "rotary", "--out", "positions.svg")
    assert drawn.code == 0, drawn.err
    assert "<svg" in Path("positions.svg").read_text()


def test_a_decoder_is_shown_without_a_run() -> None:
    config = TransformerDecoderConfig(width=16, heads=2, layers=1)
    from weft.models.embedding import build_embedding

    decoder = config.build_decoder(build_embedding(16, 10, scaled=True))
    assert positions(decoder, length=7).codes.shape == (7, 16)


def test_what_is_neither_a_run_nor_a_kind_gets_the_list(weft: Any) -> None:
    found = weft("inspect", "positions", "foo")
    assert found.code == 2
    assert "foo: is neither a run nor a kind of positions" in found.err
    assert "sinusoid" in found.err
