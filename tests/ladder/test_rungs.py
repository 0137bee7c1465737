"""The rungs of a ladder: those of the task, some of them, config files, and settings for all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.errors import ConfigError
from weft.ladder import build_rungs

BASE = {"task": "classify", "data": {"train": "reviews.tsv"}}


def built(base=BASE, **options):
    return {rung.name: rung.settings for rung in build_rungs(base, **options)}


def test_default_rungs_in_their_order():
    found = built(only=["transformer", "majority", "rnn"])
    assert list(found) == ["majority", "rnn", "transformer"]
    assert found["majority"] is None
    assert found["rnn"] == {**BASE, "model": {"kind": "rnn"}}


def test_a_setting_goes_to_the_rungs_that_have_it():
    found = built(only=["rnn", "transformer"], overrides={"model": {"heads": 2}, "train": {"rate": 1e-3}})
    assert found["rnn"]["model"] == {"kind": "rnn"}
    assert found["transformer"]["model"] == {"kind": "transformer", "heads": 2}
    assert found["rnn"]["train"] == found["transformer"]["train"] == {"rate": 1e-3}
    with pytest.raises(ConfigError, match="haeds"):
        built(only=["rnn", "transformer"], overrides={"model": {"haeds": 2}})


def test_config_files_are_further_rungs(tmp_path):
    path = tmp_path / "wide.toml"
    path.write_text('[model]\nkind = "rnn"\nhidden = 512\n[train]\nepochs = 3\n', encoding="utf-8")
    found = built(only=["majority"], files=[path], overrides={"train": {"steps": 7}})
    assert list(found) == ["majority", "wide"]
    assert found["wide"]["model"] == {"kind": "rnn", "hidden": 512}
    assert found["wide"]["train"] == {"steps": 7}, "the budget takes the place of the file's own"
    assert found["wide"]["data"] == BASE["data"]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.toml", 'task = "lm"', 'is for "lm"'),
        ("rnn.toml", "", "is the name of another rung"),
        ("a b.toml", "", "is no name for a folder"),
        ("a.toml", "seed = 7", "another seed sets other examples aside"),
    ],
)
def test_files_that_are_no_rung(name, content, said, tmp_path):
    Path(tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=said):
        built(files=[tmp_path / name], only=["rnn"])


def test_rungs_that_are_not_there():
    with pytest.raises(ConfigError, match='did you mean "rnn"'):
        built(only=["rn"])
    with pytest.raises(ConfigError, match="no rung of classify to train"):
        built(only=["majority"])
