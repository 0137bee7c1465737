"""The error for a setting that is written as an option or in the wrong place suggests the right spelling."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from weft.errors import counted
from weft.extras import EXTRAS, Extra


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("train classify x.tsv --epochs 3", "--epochs: no such option (did you mean train.epochs=3?)"),
        ("train classify x.tsv --epochs=3", "--epochs: no such option (did you mean train.epochs=3?)"),
        ("train classify x.tsv --epoch 3", "--epoch: no such option (did you mean train.epochs=3?)"),
        ("train classify x.tsv --train.epochs 3", "--train.epochs: no such option (did you mean train.epochs=3?)"),
        ("train classify x.tsv --test f", "--test: no such option (did you mean data.test=f?)"),
        ("train classify x.tsv --rate 1e-3", "--rate: no such option (did you mean train.rate=1e-3?)"),
        ("train my.toml --batch-tokens 64", "--batch-tokens: no such option (did you mean train.batch_tokens=64?)"),
        ("train classify x.tsv --batch-size 8", "--batch-size: no such option (did you mean train.batch_tokens?)"),
        ("train classify x.tsv --device cpu", "--device: no such option (did you mean train.device=cpu?)"),
        (
            "train translate x.tsv --hidden 9",
            "--hidden: no such option (did you mean model.encoder.hidden=9 or model.decoder.hidden=9?)",
        ),
        (
            "train translate x.tsv model.encoder.kind=transformer --hidden 9",
            "--hidden: no such option (did you mean model.decoder.hidden=9?)",
        ),
        ("sweep classify x.tsv --out s --epochs 3", "--epochs: no such option (did you mean train.epochs=3?)"),
        ("config check my.toml --seed 3", "--seed: no such option (did you mean seed=3?)"),
        ("data show classify x.tsv --text body", "--text: no such option (did you mean data.text=body?)"),
        ("train classify x.tsv epochs=3", "epochs: no such setting (did you mean train.epochs=3?)"),
        ("train classify x.tsv hidden=256", "hidden: no such setting (did you mean model.hidden=256?)"),
        ("train classify x.tsv test=f", "test: no such setting (did you mean data.test=f?)"),
        ("train classify x.tsv train.hidden=8", "train.hidden: no such setting (did you mean model.hidden=8?)"),
        ("train translate x.tsv encoder.layers=2", "encoder: no such setting (did you mean model.encoder?)"),
        ("train classify x.tsv model.hiden=8", 'model.hiden: no such setting (did you mean "hidden"?)'),
        ("predict run --device gpu", '--device: "gpu" is not a device (try cpu, cuda or auto)'),
        ("evaluate run x.tsv --device cpu:x", '--device: "cpu:x" is not a device (try cpu, cuda or auto)'),
    ],
)
def test_the_right_spelling_is_suggested(weft, words, line):
    outcome = weft(*words.split())
    assert outcome.code == 2
    assert outcome.err == f"error {line}\n"


def test_an_option_that_names_no_setting_is_reported_by_typer(weft):
    outcome = weft("train", "classify", "x.tsv", "--zzz", "3")
    assert outcome.code == 2
    assert "No such option: --zzz" in outcome.err


def test_extras_are_those_of_the_package_and_every_line_names_its_packages():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for name, extra in EXTRAS.items():
        assert list(extra.packages) == project["optional-dependencies"][name]
    assert EXTRAS["plot"].install == "pip install 'altair>=5.5' 'vl-convert-python>=1.7'"


def test_doctor_lists_what_is_installed_and_how_to_install_the_rest(weft, monkeypatch):
    monkeypatch.setitem(EXTRAS, "plot", Extra("pictures", ("numpy>=1", "no-such-package>=2")))
    monkeypatch.setitem(EXTRAS, "tune", Extra("sweeps", ("numpy>=1",)))
    found = json.loads(weft("doctor", "--json").out)
    assert found["extra plot"] == (
        "missing: no-such-package, for pictures; pip install 'numpy>=1' 'no-such-package>=2'"
    )
    assert found["extra tune"] == f"numpy {found['numpy']}, for sweeps"


def test_one_is_singular():
    assert [counted(number, "pair") for number in (0, 1, 2, 1234)] == ["0 pairs", "1 pair", "2 pairs", "1,234 pairs"]
    assert counted(2, "entry", "entries") == "2 entries"
